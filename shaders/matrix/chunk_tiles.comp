// GEMM of many rows with packed weights, chunk by chunk, on GPUs.
#include "products/chunk_tiles.glsl"
