// ELEMENT_WISE_ASINH: f(x) = asinh(x) = ln(x + sqrt(x * x + 1)). Odd; infinities stay.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "inverse_hyperbolic_sine.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(asinh, INPUT_0)(SCALED(x))
#include "elementwise.glsl"
