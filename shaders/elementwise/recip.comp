// ELEMENT_WISE_RECIP: f(x) = 1 / x; x being x * Scale + Bias when ScaleBias is given. Rounded once; FLOAT32 denormals count
// as zero.
#include "division.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(recip, INPUT_0)(SCALED(x))
