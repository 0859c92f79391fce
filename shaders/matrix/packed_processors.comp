// GEMM with packed weights, by exact integers or chunk by chunk, on processors.
#include "products/packed_processors.glsl"
