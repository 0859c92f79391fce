#define LONG_OPERATION
#include "elementwise/elementwise_operands.glsl"
#include "softplus.glsl"

#if !INPUT_0_IS_FLOAT16
#define FAST_PATH_OPERATION(x, needs_slow_path) ordinary_parametric_softplus_f32(x, ATTRIBUTE_ALPHA, ATTRIBUTE_BETA, needs_slow_path)
#endif

#define OPERATION(x) FORM(parametric_softplus, INPUT_0)(x, ATTRIBUTE_ALPHA, ATTRIBUTE_BETA)
