// ELEMENT_WISE_MODULUS_FLOOR: f(a, b) = a - b * floor(a / b), of the exact quotient; of the sign of b. FLOAT32 denormals count
// as zero. Integers: 0 modulo zero.
#include "integer_division.glsl"
#include "modulus.glsl"

#define OPERATION(a, b) FORM(modulus_floor, INPUT_0)(a, b)
