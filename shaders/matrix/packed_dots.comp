// GEMM of many rows with packed weights by exact integers, on GPUs whose matrices have no exact sums.
#include "products/packed_dots.glsl"
