#include "comparison.glsl"

#define OPERATION(x) (FORM(is_greater, INPUT_0)(x, ATTRIBUTE_ALPHA) ? (x) : 0u)
