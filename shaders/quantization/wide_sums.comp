// MATRIX_MULTIPLY_INTEGER_TO_FLOAT: sums of products of integers less their zero points, exact in three words each.
#include "products/wide_sums.glsl"
