// ELEMENT_WISE_DIFFERENCE_SQUARE: f(a, b) = (a - b) * (a - b). FLOAT32: the difference and its square are rounded; FLOAT16:
// the exact square is rounded once. FLOAT32 denormals count as zero. Integers wrap.
#include "arithmetic.glsl"
#include "integer_arithmetic.glsl"

#define OPERATION(a, b) FORM(difference_square, INPUT_0)(a, b)
