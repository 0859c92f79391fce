#include "piecewise_linear.glsl"

#if !INPUT_0_IS_FLOAT16
#define FAST_PATH_OPERATION(x, needs_slow_path) ordinary_hard_swish_f32(x, ATTRIBUTE_ALPHA, ATTRIBUTE_BETA, needs_slow_path)
#endif

#define OPERATION(x) FORM(hard_swish, INPUT_0)(x, ATTRIBUTE_ALPHA, ATTRIBUTE_BETA)
