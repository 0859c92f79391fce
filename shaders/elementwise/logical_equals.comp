#include "comparison.glsl"

#define OPERATION(a, b) uint(FORM(is_equal, INPUT_0)(a, b))
