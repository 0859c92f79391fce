#version 450
#extension GL_GOOGLE_include_directive : require

// GEMM of few rows with packed weights, on GPUs.
#include "products/block_rows.glsl"
