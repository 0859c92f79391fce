// ACTIVATION_TANH: f(x) = tanh(x).
#include "elementwise/elementwise_operands.glsl"
#include "hyperbolic.glsl"

#define OPERATION(x) FORM(tanh, INPUT_0)(x)
#include "elementwise/elementwise.glsl"
