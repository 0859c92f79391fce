// A step of BATCH_NORMALIZATION_TRAINING_GRAD: g * (x - mean), each step rounded to FLOAT32. The mean has two words.
#include "arithmetic.glsl"
#include "mean_difference.glsl"
#include "widening.glsl"

#define OPERATION(x, gradient, mean) \
    multiply_f32(FORM(widened, INPUT_1)(gradient), difference_from(FORM(widened, INPUT_0)(x), mean))
