// ELEMENT_WISE_ERF: f(x) = erf(x) = 2 / sqrt(pi) * (integral of e^(-t^2) from 0 to x), x being x * Scale + Bias when ScaleBias
// is given.
#include "error_function.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(erf, INPUT_0)(SCALED(x))
