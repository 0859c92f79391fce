// ACTIVATION_TANH: f(x) = tanh(x).
#include "hyperbolic.glsl"

#define OPERATION(x) FORM(tanh, INPUT_0)(x)
