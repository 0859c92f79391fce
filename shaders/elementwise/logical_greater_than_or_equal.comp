#include "comparison.glsl"

#define OPERATION(a, b) uint(FORM(is_greater_or_equal, INPUT_0)(a, b))
