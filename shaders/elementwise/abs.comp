#include "negation.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(absolute, INPUT_0)(SCALED(x))
