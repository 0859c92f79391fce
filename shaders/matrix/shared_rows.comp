
// GEMM of few rows, on GPUs that a sum for each invocation would not keep busy.
#include "products/matrix_shared_rows.glsl"
