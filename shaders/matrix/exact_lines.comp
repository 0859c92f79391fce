#version 450
#extension GL_GOOGLE_include_directive : require

// What is known of lines of such an operand.
#include "products/exact_lines.glsl"
