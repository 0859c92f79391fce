#version 450
#extension GL_GOOGLE_include_directive : require

// GEMM and CONVOLUTION on processors.
#include "products/matrix_blocks.glsl"
