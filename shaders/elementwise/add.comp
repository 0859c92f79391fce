#include "arithmetic.glsl"
#include "integer_arithmetic.glsl"

#define OPERATION(a, b) FORM(add, INPUT_0)(a, b)
// For kernels of several operators, see dmlvk/graphs/fusion/forms.py.
#define OPERATION_PLAIN(a, b) plain_sum(a, b)
