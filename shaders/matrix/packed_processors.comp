// GEMM with packed weights, by exact integers or chunk by chunk, on processors.
#if SHARES_TERMS
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "products/packed_processors.glsl"
