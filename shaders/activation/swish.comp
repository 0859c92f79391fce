#include "special_attribute.glsl"
#include "sigmoid.glsl"

#if !INPUT_0_IS_FLOAT16
#define FAST_PATH_OPERATION(x, needs_slow_path) ordinary_swish_f32(x, ATTRIBUTE_SIGMOID_INPUT_SCALE, SPECIAL_ATTRIBUTE, needs_slow_path)
#endif

#define OPERATION(x) FORM(swish, INPUT_0)(x, ATTRIBUTE_SIGMOID_INPUT_SCALE, SPECIAL_ATTRIBUTE)
