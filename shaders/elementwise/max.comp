#include "comparison.glsl"

#if INPUT_0_IS_FLOAT16
#define SLOW_PATH_BITS(word) nan_bits_f16(word)
#define FAST_OPERATION(a, b) quick_larger_f16(a, b)
#endif

#define OPERATION(a, b) FORM(canonical, INPUT_0)(FORM(larger, INPUT_0)(a, b))
// For kernels of several operators, see dmlvk/graphs/fusion/forms.py.
#define OPERATION_BESIDE_POSITIVE(a, number) larger_beside_positive(a, number)
#define OPERATION_BESIDE_NEGATIVE(a, number) larger_beside_negative(a, number)
