#version 450
#extension GL_GOOGLE_include_directive : require

// Sums of the lines of packed operands.
#include "products/packed_sums.glsl"
