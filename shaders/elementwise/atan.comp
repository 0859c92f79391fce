// ELEMENT_WISE_ATAN: f(x) = atan(x), x being x * Scale + Bias when ScaleBias is given; of infinities pi/2 of their sign.
#include "inverse_tangent.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(atan, INPUT_0)(SCALED(x))
