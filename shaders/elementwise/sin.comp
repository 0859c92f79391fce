#define LONG_OPERATION
#include "elementwise/elementwise_operands.glsl"
#include "prescaling.glsl"
#include "trigonometry.glsl"

#if !INPUT_0_IS_FLOAT16
#define FAST_PATH_OPERATION(x, needs_slow_path) ordinary_sin_f32(SCALED(x), needs_slow_path)
#endif

#define OPERATION(x) FORM(sin, INPUT_0)(SCALED(x))
