#ifdef HALF_ARITHMETIC
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif

// GEMM and CONVOLUTION by matrices that subgroups hold together.
#include "products/matrix_cooperative.glsl"
