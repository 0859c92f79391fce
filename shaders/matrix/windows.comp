#version 450
#extension GL_GOOGLE_include_directive : require

// CONVOLUTION of few channels for each result, on GPUs.
#include "products/matrix_windows.glsl"
