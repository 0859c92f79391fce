// GEMM of many rows with packed weights, on processors.
#include "products/packed_blocks.glsl"
