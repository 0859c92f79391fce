#include "rounding.glsl"
#include "prescaling.glsl"

#if INPUT_0_IS_FLOAT16 && !HAS_SCALE_BIAS
#define SLOW_PATH_BITS(word) nan_bits_f16(word)
#define FAST_OPERATION(x) quick_ceiling_f16(x)
#endif

#define OPERATION(x) FORM(ceiling, INPUT_0)(SCALED(x))
