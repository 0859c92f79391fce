// Products of rows with packed matrices that each row chooses, by exact integers or chunk by chunk, on processors.
#if SHARES_TERMS
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "products/experts.glsl"
#define main multiply
#include "products/packed_processors.glsl"
#undef main

void main() {
    FIND_EXPERT
    multiply();
}
