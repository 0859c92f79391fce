#version 450
#extension GL_GOOGLE_include_directive : require

// An operand of an exact product as integers of blocks.
#include "products/exact_operand.glsl"
