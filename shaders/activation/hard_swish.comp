// ACTIVATION_HARD_SWISH: f(x) = x * max(0, min(Alpha * x + Beta, 1)).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "piecewise_linear.glsl"

#define OPERATION(x) FORM(hard_swish, INPUT_0)(x, ATTRIBUTE_ALPHA, ATTRIBUTE_BETA)
#include "elementwise.glsl"
