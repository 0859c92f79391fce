// GEMM with packed weights by exact integers, on processors.
#include "products/packed_processors.glsl"
