#include "exponential.glsl"
#include "half_exponential.glsl"
#include "prescaling.glsl"

#if INPUT_0_IS_FLOAT16 && !HAS_SCALE_BIAS
#define SLOW_PATH_BITS(word) magnitudes_from_f16(word, FAR_EXPONENT_F16)
#define FAST_OPERATION(x) quick_exp_f16(x)
#endif

#define OPERATION(x) FORM(exp, INPUT_0)(SCALED(x))
