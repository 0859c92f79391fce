
// Results of such products that are computed one by one.
#include "products/exact_rest.glsl"
