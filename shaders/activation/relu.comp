// ACTIVATION_RELU: f(x) = max(0, x); NaN and -0 give +0.
#include "comparison.glsl"

#define OPERATION(x) FORM(larger, INPUT_0)(x, 0u)
// For kernels of several operators, see dmlvk/graphs/fusion/forms.py.
#define OPERATION_BESIDE_POSITIVE(x) larger_beside_positive(x, 0u)
