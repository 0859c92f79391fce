// ELEMENT_WISE_DIVIDE: f(a, b) = a / b. Floats: rounded once; FLOAT32 denormals count as zero. Integers: truncated toward
// zero; 0 when divided by zero.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "division.glsl"
#include "integer_division.glsl"

#define OPERATION(a, b) FORM(divide, INPUT_0)(a, b)
#include "elementwise.glsl"
