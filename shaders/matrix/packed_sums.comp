
// Sums of the lines of packed operands.
#include "products/packed_sums.glsl"
