#include "rounding.glsl"

#if INPUT_0_IS_FLOAT16
#define SLOW_PATH_BITS(word) nan_bits_f16(word)
#define FAST_OPERATION(x) quick_rounded_f16(x, ATTRIBUTE_ROUNDING_MODE)
#endif

#define OPERATION(x) FORM(rounded, INPUT_0)(x, ATTRIBUTE_ROUNDING_MODE)
