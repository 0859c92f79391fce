// ELEMENT_WISE_TANH: f(x) = tanh(x).
#include "hyperbolic.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(tanh, INPUT_0)(SCALED(x))
