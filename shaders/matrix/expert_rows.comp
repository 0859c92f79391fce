#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef HALF_ARITHMETIC
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif

// Products of rows with packed matrices that each row chooses, on GPUs.
#include "products/experts.glsl"
#define main multiply
#include "products/block_rows.glsl"
#undef main

void main()
{
    FIND_EXPERT
    multiply();
}
