#include "inverse_tangent.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(atan, INPUT_0)(SCALED(x))
