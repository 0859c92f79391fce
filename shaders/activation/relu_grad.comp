#include "comparison.glsl"

#define OPERATION(x, gradient) (FORM(is_greater, INPUT_0)(x, 0u) ? (gradient) : 0u)
