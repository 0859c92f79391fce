
// GEMM and CONVOLUTION on GPUs.
#include "products/matrix_tiles.glsl"
