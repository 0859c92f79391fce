
// Convolutions whose windows overlap in planes.
#include "products/matrix_planes.glsl"
