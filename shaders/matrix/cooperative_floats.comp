#version 450
#extension GL_GOOGLE_include_directive : require

// GEMM and CONVOLUTION by matrices that subgroups hold together.
#include "products/matrix_cooperative.glsl"
