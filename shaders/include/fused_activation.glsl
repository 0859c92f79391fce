// What a FusedActivation makes of an operator's result before it is stored: ACTIVATED(x), with the bits that the activation
// gives for a tensor of such results. Without a fused activation ACTIVATED(x) is x.
//
// The compile script passes FUSED_<NAME>, which chooses the activation, and ATTRIBUTE_FUSED_<MEMBER> for each of its members.
// Included before the pattern's operands, for it says too whether the operation is a long one.
#ifndef FUSED_ACTIVATION_GLSL
#define FUSED_ACTIVATION_GLSL

#include "datatypes.glsl"
#include "special_attribute.glsl"

#if defined(FUSED_CELU)
#include "celu.glsl"
#define ACTIVATED(x) FORM(celu, OUTPUT)(x, ATTRIBUTE_FUSED_ALPHA, SPECIAL_ATTRIBUTE)
#elif defined(FUSED_ELU)
#include "exponential_linear.glsl"
#define ACTIVATED(x) FORM(elu, OUTPUT)(x, ATTRIBUTE_FUSED_ALPHA, SPECIAL_ATTRIBUTE)
#elif defined(FUSED_GELU)
#define LONG_OPERATION
#include "gelu.glsl"
#define ACTIVATED(x) FORM(gelu, OUTPUT)(x)
#elif defined(FUSED_HARD_SIGMOID)
#include "piecewise_linear.glsl"
#define ACTIVATED(x) FORM(hard_sigmoid, OUTPUT)(x, ATTRIBUTE_FUSED_ALPHA, ATTRIBUTE_FUSED_BETA)
#elif defined(FUSED_LEAKY_RELU)
#include "piecewise_linear.glsl"
#define ACTIVATED(x) FORM(leaky_relu, OUTPUT)(x, ATTRIBUTE_FUSED_ALPHA)
#elif defined(FUSED_LINEAR)
#include "piecewise_linear.glsl"
#define ACTIVATED(x) FORM(linear, OUTPUT)(x, ATTRIBUTE_FUSED_ALPHA, ATTRIBUTE_FUSED_BETA)
#elif defined(FUSED_PARAMETRIC_SOFTPLUS)
#define LONG_OPERATION
#include "softplus.glsl"
#define ACTIVATED(x) FORM(parametric_softplus, OUTPUT)(x, ATTRIBUTE_FUSED_ALPHA, ATTRIBUTE_FUSED_BETA)
#elif defined(FUSED_RELU)
#include "comparison.glsl"
#define ACTIVATED(x) FORM(larger, OUTPUT)(x, 0u)
#elif defined(FUSED_SCALED_ELU)
#include "exponential_linear.glsl"
#define ACTIVATED(x) FORM(scaled_elu, OUTPUT)(x, ATTRIBUTE_FUSED_ALPHA, ATTRIBUTE_FUSED_GAMMA)
#elif defined(FUSED_SCALED_TANH)
#include "scaled_tanh.glsl"
#define ACTIVATED(x) FORM(scaled_tanh, OUTPUT)(x, ATTRIBUTE_FUSED_ALPHA, ATTRIBUTE_FUSED_BETA)
#elif defined(FUSED_SHRINK)
#include "shrink.glsl"
#define ACTIVATED(x) CONCATENATE(shrink_, OUTPUT)(x, ATTRIBUTE_FUSED_BIAS, ATTRIBUTE_FUSED_THRESHOLD)
#elif defined(FUSED_SIGMOID)
#include "sigmoid.glsl"
#define ACTIVATED(x) FORM(sigmoid, OUTPUT)(x)
#elif defined(FUSED_SOFTPLUS)
#define LONG_OPERATION
#include "softplus.glsl"
#define ACTIVATED(x) FORM(softplus, OUTPUT)(x, ATTRIBUTE_FUSED_STEEPNESS, SPECIAL_ATTRIBUTE)
#elif defined(FUSED_SOFTSIGN)
#include "softsign.glsl"
#define ACTIVATED(x) FORM(softsign, OUTPUT)(x)
#elif defined(FUSED_TANH)
#include "hyperbolic.glsl"
#define ACTIVATED(x) FORM(tanh, OUTPUT)(x)
#elif defined(FUSED_THRESHOLDED_RELU)
#include "comparison.glsl"
uint thresholded_relu_f32(uint x, uint alpha) { return is_greater_f32(x, alpha) ? x : 0u; }
uint thresholded_relu_f16(uint x, uint alpha) { return is_greater_f16(x, alpha) ? x : 0u; }
#define ACTIVATED(x) FORM(thresholded_relu, OUTPUT)(x, ATTRIBUTE_FUSED_ALPHA)
#else
#define ACTIVATED(x) (x)
#endif

#endif
