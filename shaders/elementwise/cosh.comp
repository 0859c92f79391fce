#include "hyperbolic.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(cosh, INPUT_0)(SCALED(x))
