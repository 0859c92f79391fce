#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// GEMM of few rows with packed weights, by matrices that subgroups hold together.
#include "products/block_matrices.glsl"
