// ACTIVATION_LINEAR: f(x) = Alpha * x + Beta, rounded once; FLOAT32 denormals count as zero.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "piecewise_linear.glsl"

#define OPERATION(x) FORM(linear, INPUT_0)(x, ATTRIBUTE_ALPHA, ATTRIBUTE_BETA)
#include "elementwise.glsl"
