// ELEMENT_WISE_NEGATE: f(x) = -x; integers wrap.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/elementwise_operands.glsl"
#include "negation.glsl"

#define OPERATION(x) FORM(negated, INPUT_0)(x)
#include "elementwise/elementwise.glsl"
