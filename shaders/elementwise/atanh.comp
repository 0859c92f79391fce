#include "inverse_hyperbolic_tangent.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(atanh, INPUT_0)(SCALED(x))
