#version 450
#extension GL_GOOGLE_include_directive : require

// GEMM and CONVOLUTION on GPUs.
#include "products/matrix_tiles.glsl"
