#include "inverse_trigonometry.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(asin, INPUT_0)(SCALED(x))
