#include "comparison.glsl"

#define OPERATION(a, b) uint(FORM(is_greater, INPUT_0)(a, b))
