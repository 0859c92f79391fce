// ACTIVATION_PARAMETRIC_SOFTPLUS: f(x) = Alpha * ln(1 + exp(Beta * x)).
#version 450
#extension GL_GOOGLE_include_directive : require
#define LONG_OPERATION
#include "elementwise_operands.glsl"
#include "softplus.glsl"

#define OPERATION(x) FORM(parametric_softplus, INPUT_0)(x, ATTRIBUTE_ALPHA, ATTRIBUTE_BETA)
#include "elementwise.glsl"
