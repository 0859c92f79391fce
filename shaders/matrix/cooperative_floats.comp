#version 450
#extension GL_GOOGLE_include_directive : require

// GEMM and CONVOLUTION by matrices that subgroups hold together.
#include "matrix_cooperative.glsl"
