// MATRIX_MULTIPLY_INTEGER_TO_FLOAT: sums of products of integers less their zero points, exact in three words each.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "products/wide_sums.glsl"
