// ELEMENT_WISE_LOGICAL_EQUALS: f(a, b) = 1 if a == b, else 0; a comparison with NaN is false.
#include "comparison.glsl"

#define OPERATION(a, b) uint(FORM(is_equal, INPUT_0)(a, b))
