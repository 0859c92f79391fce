// ELEMENT_WISE_MODULUS_TRUNCATE: f(a, b) = a - b * trunc(a / b), of the exact quotient; of the sign of a. FLOAT32 denormals count
// as zero. Integers: 0 modulo zero.
#include "integer_division.glsl"
#include "modulus.glsl"

#define OPERATION(a, b) FORM(modulus_truncate, INPUT_0)(a, b)
