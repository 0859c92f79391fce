#include "hyperbolic.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(tanh, INPUT_0)(SCALED(x))
