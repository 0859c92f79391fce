// ELEMENT_WISE_MEAN: f(a, b) = (a + b) / 2, without overflow of the sum. Floats: rounded once; FLOAT32 denormals count as
// zero. Integers: truncated toward zero.
#include "arithmetic.glsl"
#include "integer_arithmetic.glsl"

#define OPERATION(a, b) FORM(mean, INPUT_0)(a, b)
