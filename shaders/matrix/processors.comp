
// GEMM and CONVOLUTION on processors.
#include "products/matrix_processors.glsl"
