// VALUE_SCALE_2D: f(x, bias) = x * Scale + bias, rounded once; FLOAT32 denormals count as zero.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/elementwise_operands.glsl"
#include "affine.glsl"

#define OPERATION(x, bias) FORM(affine, INPUT_0)(x, parameters.attributes[0], bias)
#include "elementwise/elementwise.glsl"
