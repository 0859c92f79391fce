// ELEMENT_WISE_CLIP, ELEMENT_WISE_CLIP1: f(x) = max(Min, min(x, Max)). The bounds arrive in the tensor's data type, a NaN as the canonical one.
#include "comparison.glsl"
#include "prescaling.glsl"

#if INPUT_0_IS_FLOAT16 && !HAS_SCALE_BIAS
#define SLOW_PATH_BITS(word) nan_bits_f16(word)
#define FAST_OPERATION(x) quick_clipped_f16(x, ATTRIBUTE_MIN, ATTRIBUTE_MAX)
#endif

#define OPERATION(x) \
    FORM(larger, INPUT_0)(FORM(smaller, INPUT_0)(SCALED(x), ATTRIBUTE_MAX), ATTRIBUTE_MIN)
// For kernels of several operators, see dmlvk/graphs/fusion/forms.py.
#define OPERATION_BESIDE_SIGNS(x, sign_of_max, sign_of_min) \
    CONCATENATE(larger_number_beside_, sign_of_min)(CONCATENATE(smaller_beside_, sign_of_max)(x, ATTRIBUTE_MAX), ATTRIBUTE_MIN)
