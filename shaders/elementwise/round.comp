// ELEMENT_WISE_ROUND: f(x) = x rounded to an integer by RoundingMode; NaN gives the canonical NaN.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "rounding.glsl"

#define OPERATION(x) FORM(rounded, INPUT_0)(x, ATTRIBUTE_ROUNDING_MODE)
#include "elementwise.glsl"
