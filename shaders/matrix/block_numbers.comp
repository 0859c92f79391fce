#version 450
#extension GL_GOOGLE_include_directive : require

// Packed weights as numbers.
#include "products/block_numbers.glsl"
