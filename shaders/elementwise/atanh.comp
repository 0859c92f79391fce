// ELEMENT_WISE_ATANH: f(x) = atanh(x) = ln((1 + x) / (1 - x)) / 2. Odd; of 1 infinity, beyond it NaN.
#include "inverse_hyperbolic_tangent.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(atanh, INPUT_0)(SCALED(x))
