#include "hyperbolic.glsl"

#define OPERATION(x) FORM(tanh, INPUT_0)(x)
