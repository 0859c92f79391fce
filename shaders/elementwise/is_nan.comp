// ELEMENT_WISE_IS_NAN: f(x) = 1 if x is NaN, else 0.
#include "comparison.glsl"

#define OPERATION(x) uint(FORM(is_nan, INPUT_0)(x))
