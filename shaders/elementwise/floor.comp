#include "rounding.glsl"
#include "prescaling.glsl"

#if INPUT_0_IS_FLOAT16 && !HAS_SCALE_BIAS
#define SLOW_PATH_BITS(word) nan_bits_f16(word)
#define FAST_OPERATION(x) quick_rounded_f16(x, TOWARD_MINUS_INFINITY)
#endif

#define OPERATION(x) FORM(rounded, INPUT_0)(SCALED(x), TOWARD_MINUS_INFINITY)
