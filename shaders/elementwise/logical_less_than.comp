// ELEMENT_WISE_LOGICAL_LESS_THAN: f(a, b) = 1 if a < b, else 0; a comparison with NaN is false.
#include "comparison.glsl"

#define OPERATION(a, b) uint(FORM(is_greater, INPUT_0)(b, a))
