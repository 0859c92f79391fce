// GEMM of few rows with packed weights, on GPUs.
#include "products/block_rows.glsl"
