// ELEMENT_WISE_FLOOR: f(x) = the largest integer that is not greater than x; NaN gives the canonical NaN.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "rounding.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(rounded, INPUT_0)(SCALED(x), TOWARD_MINUS_INFINITY)
#include "elementwise.glsl"
