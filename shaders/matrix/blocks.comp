
// GEMM and CONVOLUTION on processors.
#include "products/matrix_blocks.glsl"
