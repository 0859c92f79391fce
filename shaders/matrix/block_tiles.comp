#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef HALF_ARITHMETIC
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif

// GEMM of 5 to 32 rows with packed weights, on GPUs.
#include "products/block_tiles.glsl"
