#include "arithmetic.glsl"
#include "integer_arithmetic.glsl"

#define OPERATION(a, b) FORM(multiply, INPUT_0)(a, b)
// For kernels of several operators, see dmlvk/graphs/fusion/forms.py.
#define OPERATION_PLAIN(a, b) plain_product(a, b)
#define OPERATION_WITH_NUMBER(a, number, largest_vanishing) product_with_number(a, number, largest_vanishing)
#define OPERATION_OF_BOUNDED(a, b) product_of_bounded(a, b)
#define OPERATION_WITH_BOUNDED(a, b) product_with_bounded(a, b)
