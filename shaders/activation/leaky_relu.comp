// ACTIVATION_LEAKY_RELU: f(x) = x if x >= 0, else Alpha * x, rounded once; FLOAT32 denormals count as zero.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "piecewise_linear.glsl"

#define OPERATION(x) FORM(leaky_relu, INPUT_0)(x, ATTRIBUTE_ALPHA)
#include "elementwise.glsl"
