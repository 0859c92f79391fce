
// GEMM and CONVOLUTION of little work, on GPUs.
#include "products/matrix_single.glsl"
