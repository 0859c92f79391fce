#version 450
#extension GL_GOOGLE_include_directive : require

// Operands of products of 8-bit integers, packed for tiles.
#include "products/packed_operand.glsl"
