
// GEMM and CONVOLUTION: adds the segments of sums that were computed side by side.
#include "products/matrix_sums.glsl"
