// ACTIVATION_SWISH: f(x) = x / (1 + e^-(SigmoidInputScale * x)).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "special_attribute.glsl"
#include "sigmoid.glsl"

#define OPERATION(x) FORM(swish, INPUT_0)(x, ATTRIBUTE_SIGMOID_INPUT_SCALE, SPECIAL_ATTRIBUTE)
#include "elementwise.glsl"
