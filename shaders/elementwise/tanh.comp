// ELEMENT_WISE_TANH: f(x) = tanh(x).
#include "elementwise/elementwise_operands.glsl"
#include "hyperbolic.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(tanh, INPUT_0)(SCALED(x))
#include "elementwise/elementwise.glsl"
