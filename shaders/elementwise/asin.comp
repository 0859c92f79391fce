// ELEMENT_WISE_ASIN: f(x) = asin(x), x being x * Scale + Bias when ScaleBias is given; of what lies outside [-1, 1] NaN.
#include "inverse_trigonometry.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(asin, INPUT_0)(SCALED(x))
