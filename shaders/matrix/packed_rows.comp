// GEMM of few rows with packed weights by exact integers, on GPUs.
#include "products/packed_rows.glsl"
