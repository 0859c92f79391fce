// The first step of BATCH_NORMALIZATION: Scale / sqrt(Variance + Epsilon), each step rounded to FLOAT32.
#include "arithmetic.glsl"
#include "division.glsl"
#include "widening.glsl"

#define OPERATION(variance, scale) \
    divide_f32(FORM(widened, INPUT_1)(scale), \
        sqrt_f32(add_f32(FORM(widened, INPUT_0)(variance), parameters.attributes[0])))
