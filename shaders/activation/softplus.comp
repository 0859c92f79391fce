#define LONG_OPERATION
#include "elementwise/elementwise_operands.glsl"
#include "special_attribute.glsl"
#include "softplus.glsl"

#if !INPUT_0_IS_FLOAT16
#define FAST_PATH_OPERATION(x, needs_slow_path) ordinary_softplus_f32(x, ATTRIBUTE_STEEPNESS, SPECIAL_ATTRIBUTE, needs_slow_path)
#endif

#define OPERATION(x) FORM(softplus, INPUT_0)(x, ATTRIBUTE_STEEPNESS, SPECIAL_ATTRIBUTE)
