// GEMM of few rows with packed weights, by exact integers or chunk by chunk, on GPUs.
#include "products/packed_rows.glsl"
