#include "comparison.glsl"

#define OPERATION(x) uint(FORM(is_nan, INPUT_0)(x))
