#include "scaled_tanh.glsl"

#if !INPUT_0_IS_FLOAT16
#define FAST_PATH_OPERATION(x, needs_slow_path) ordinary_scaled_tanh_f32(x, ATTRIBUTE_ALPHA, ATTRIBUTE_BETA, needs_slow_path)
#endif

#define OPERATION(x) FORM(scaled_tanh, INPUT_0)(x, ATTRIBUTE_ALPHA, ATTRIBUTE_BETA)
