#include "logarithm.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(log, INPUT_0)(SCALED(x))
