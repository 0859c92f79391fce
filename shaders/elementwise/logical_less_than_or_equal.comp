// ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL: f(a, b) = 1 if a <= b, else 0; a comparison with NaN is false.
#include "comparison.glsl"

#define OPERATION(a, b) uint(FORM(is_greater_or_equal, INPUT_0)(b, a))
