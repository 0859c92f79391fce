#include "exponential_linear.glsl"

#if !INPUT_0_IS_FLOAT16
#define FAST_PATH_OPERATION(x, needs_slow_path) ordinary_scaled_elu_f32(x, ATTRIBUTE_ALPHA, ATTRIBUTE_GAMMA, needs_slow_path)
#endif

#define OPERATION(x) FORM(scaled_elu, INPUT_0)(x, ATTRIBUTE_ALPHA, ATTRIBUTE_GAMMA)
