#include "hyperbolic.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(sinh, INPUT_0)(SCALED(x))
