// ELEMENT_WISE_CEIL: f(x) = the smallest integer that is not less than x; NaN gives the canonical NaN.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "rounding.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(ceiling, INPUT_0)(SCALED(x))
#include "elementwise.glsl"
