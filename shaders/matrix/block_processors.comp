#version 450
#extension GL_GOOGLE_include_directive : require

// GEMM of few rows with packed weights, on processors.
#include "products/block_processors.glsl"
