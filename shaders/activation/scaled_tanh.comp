// ACTIVATION_SCALED_TANH: f(x) = Alpha * tanh(Beta * x).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "scaled_tanh.glsl"

#define OPERATION(x) FORM(scaled_tanh, INPUT_0)(x, ATTRIBUTE_ALPHA, ATTRIBUTE_BETA)
#include "elementwise.glsl"
