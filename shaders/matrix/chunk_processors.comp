// GEMM with packed weights chunk by chunk, on processors.
#include "products/chunk_processors.glsl"
