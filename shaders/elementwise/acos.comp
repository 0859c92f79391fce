#include "inverse_trigonometry.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(acos, INPUT_0)(SCALED(x))
