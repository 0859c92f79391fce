#version 450
#extension GL_GOOGLE_include_directive : require

// GEMM of few rows, on GPUs.
#include "products/matrix_rows.glsl"
