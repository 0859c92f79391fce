#include "comparison.glsl"

#define OPERATION(x) FORM(larger, INPUT_0)(x, 0u)
// For kernels of several operators, see dmlvk/graphs/fusion/forms.py.
#define OPERATION_BESIDE_POSITIVE(x) larger_beside_positive(x, 0u)
