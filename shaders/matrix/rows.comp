
// GEMM of few rows, on GPUs.
#include "products/matrix_rows.glsl"
