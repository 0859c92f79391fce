// ELEMENT_WISE_ABS: f(x) = |x|; integers wrap.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/elementwise_operands.glsl"
#include "negation.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(absolute, INPUT_0)(SCALED(x))
#include "elementwise/elementwise.glsl"
