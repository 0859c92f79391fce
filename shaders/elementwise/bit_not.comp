// ELEMENT_WISE_BIT_NOT: f(x) = ~x, every bit inverted.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/elementwise_operands.glsl"

#define OPERATION(x) (~(x))
#include "elementwise/elementwise.glsl"
