// ELEMENT_WISE_LOG: f(x) = ln x. Of +-0 -infinity, of what is below zero NaN.
#include "logarithm.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(log, INPUT_0)(SCALED(x))
