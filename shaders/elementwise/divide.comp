// ELEMENT_WISE_DIVIDE: f(a, b) = a / b. Floats: rounded once; FLOAT32 denormals count as zero. Integers: truncated toward
// zero; 0 when divided by zero.
#include "arithmetic.glsl"
#include "division.glsl"
#include "integer_division.glsl"

#define OPERATION(a, b) FORM(divide, INPUT_0)(a, b)
// For kernels of several operators, see dmlvk/graphs/fusion/forms.py: of a power of two, whose reciprocal is one.
#define OPERATION_BY_POWER(a, b, reciprocal) plain_product(a, reciprocal)
#define OPERATION_BY_POWER_MAY_VANISH(a, b, reciprocal, largest_vanishing) product_with_number(a, reciprocal, largest_vanishing)
