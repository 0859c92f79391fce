// ELEMENT_WISE_CLIP_GRAD, ELEMENT_WISE_CLIP_GRAD1: f(x, gradient) = 0 if x <= Min or x >= Max, else the gradient.
#include "comparison.glsl"

#if INPUT_0_IS_FLOAT16
#define SLOW_PATH_BITS(word) (nan_bits_f16(word) | uint(!has_quick_range(ATTRIBUTE_MIN, ATTRIBUTE_MAX)))
#define FAST_OPERATION(x, gradient) (is_between_f16(x, ATTRIBUTE_MIN, ATTRIBUTE_MAX) ? (gradient) : 0u)
#endif

#define OPERATION(x, gradient) \
    (FORM(is_greater_or_equal, INPUT_0)(ATTRIBUTE_MIN, x) || FORM(is_greater_or_equal, INPUT_0)(x, ATTRIBUTE_MAX) \
        ? VALUE(OUTPUT)(0u) \
        : (gradient))
