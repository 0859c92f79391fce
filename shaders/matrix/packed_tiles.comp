#version 450
#extension GL_GOOGLE_include_directive : require

// Products of 8-bit integers, of packed operands.
#include "products/packed_tiles.glsl"
