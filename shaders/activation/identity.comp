// ACTIVATION_IDENTITY: f(x) = x.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/elementwise_operands.glsl"

#define OPERATION(x) (x)
#include "elementwise/elementwise.glsl"
