// ELEMENT_WISE_SQRT: f(x) = sqrt(x), NaN below zero; x being x * Scale + Bias when ScaleBias is given. Rounded once; FLOAT32 denormals count
// as zero.
#include "division.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(sqrt, INPUT_0)(SCALED(x))
