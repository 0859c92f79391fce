// ACTIVATION_HARD_SWISH: f(x) = x * max(0, min(Alpha * x + Beta, 1)).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/elementwise_operands.glsl"
#include "piecewise_linear.glsl"

#if !INPUT_0_IS_FLOAT16
#define ORDINARY_OPERATION(x, is_rare) ordinary_hard_swish_f32(x, ATTRIBUTE_ALPHA, ATTRIBUTE_BETA, is_rare)
#endif

#define OPERATION(x) FORM(hard_swish, INPUT_0)(x, ATTRIBUTE_ALPHA, ATTRIBUTE_BETA)
#include "elementwise/elementwise.glsl"
