// An activation that is known when a kernel runs, and not when it is compiled: activated(kind, x, first, second), with the bits that
// the activation's own operator gives. `first` and `second` are its attributes, in the order of the operator's members.
//
// The compile script passes OPERAND, the data type, and ANY_ACTIVATION: 0 where only the first ones of the list occur, which keeps the
// kernel small. dmlvk/kernels/composed/recurrent.py counts kinds as here.
#ifndef ANY_ACTIVATION_GLSL
#define ANY_ACTIVATION_GLSL

#include "comparison.glsl"
#include "datatypes.glsl"
#include "hyperbolic.glsl"
#include "sigmoid.glsl"
#if ANY_ACTIVATION
#include "celu.glsl"
#include "exponential_linear.glsl"
#include "gelu.glsl"
#include "piecewise_linear.glsl"
#include "scaled_tanh.glsl"
#include "shrink.glsl"
#include "softplus.glsl"
#include "softsign.glsl"
#endif

uint activated(uint kind, uint x, uint first, uint second) {
    uint special = first == ONE_F32 ? first : 0u; // as special_attribute.glsl has it
    switch (kind) {
    case 0u: return FORM(sigmoid, OPERAND)(x);
    case 1u: return FORM(tanh, OPERAND)(x);
    case 2u: return FORM(larger, OPERAND)(x, 0u); // RELU
#if ANY_ACTIVATION
    case 4u: return FORM(celu, OPERAND)(x, first, special);
    case 5u: return FORM(elu, OPERAND)(x, first, special);
    case 6u: return FORM(gelu, OPERAND)(x);
    case 7u: return FORM(hard_sigmoid, OPERAND)(x, first, second);
    case 8u: return FORM(leaky_relu, OPERAND)(x, first);
    case 9u: return FORM(linear, OPERAND)(x, first, second);
    case 10u: return FORM(parametric_softplus, OPERAND)(x, first, second);
    case 11u: return FORM(scaled_elu, OPERAND)(x, first, second);
    case 12u: return FORM(scaled_tanh, OPERAND)(x, first, second);
    case 13u: return FORM(shrink, OPERAND)(x, first, second);
    case 14u: return FORM(softplus, OPERAND)(x, first, special);
    case 15u: return FORM(softsign, OPERAND)(x);
    case 16u: return FORM(is_greater, OPERAND)(x, first) ? x : 0u; // THRESHOLDED_RELU
#endif
    }
    return x; // IDENTITY, which is 3
}

#endif
