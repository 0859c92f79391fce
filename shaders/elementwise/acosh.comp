#include "inverse_hyperbolic_cosine.glsl"
#include "prescaling.glsl"

#if !INPUT_0_IS_FLOAT16
#define FAST_PATH_OPERATION(x, needs_slow_path) ordinary_acosh_f32(SCALED(x), needs_slow_path)
#endif

#define OPERATION(x) FORM(acosh, INPUT_0)(SCALED(x))
