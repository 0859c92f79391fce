// ELEMENT_WISE_IDENTITY: f(x) = x.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/elementwise_operands.glsl"
#include "prescaling.glsl"

#define OPERATION(x) SCALED(x)
#include "elementwise/elementwise.glsl"
