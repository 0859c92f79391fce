// ELEMENT_WISE_ASINH: f(x) = asinh(x) = ln(x + sqrt(x * x + 1)). Odd; infinities stay.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/elementwise_operands.glsl"
#include "inverse_hyperbolic_sine.glsl"
#include "prescaling.glsl"

#if !INPUT_0_IS_FLOAT16
#define ORDINARY_OPERATION(x, is_rare) ordinary_asinh_f32(SCALED(x), is_rare)
#endif

#define OPERATION(x) FORM(asinh, INPUT_0)(SCALED(x))
#include "elementwise/elementwise.glsl"
