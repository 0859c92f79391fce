// ACTIVATION_SCALED_ELU: f(x) = Gamma * x if x > 0, else Gamma * (Alpha * e^x - Alpha).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/elementwise_operands.glsl"
#include "exponential_linear.glsl"

#if !INPUT_0_IS_FLOAT16
#define ORDINARY_OPERATION(x, is_rare) ordinary_scaled_elu_f32(x, ATTRIBUTE_ALPHA, ATTRIBUTE_GAMMA, is_rare)
#endif

#define OPERATION(x) FORM(scaled_elu, INPUT_0)(x, ATTRIBUTE_ALPHA, ATTRIBUTE_GAMMA)
#include "elementwise/elementwise.glsl"
