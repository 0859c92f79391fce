#version 450
#extension GL_GOOGLE_include_directive : require

// GEMM and CONVOLUTION of little work, on GPUs.
#include "products/matrix_single.glsl"
