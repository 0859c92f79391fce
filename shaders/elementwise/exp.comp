// ELEMENT_WISE_EXP: f(x) = e^x.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "exponential.glsl"
#include "half_exponential.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(exp, INPUT_0)(SCALED(x))
#include "elementwise.glsl"
