
// GEMM of few rows with packed weights, on processors.
#include "products/block_processors.glsl"
