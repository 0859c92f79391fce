// The last step of BATCH_NORMALIZATION_TRAINING_GRAD: ((g - h) - (x - mean) * k) * factor, each step rounded to FLOAT32; of FLOAT16 tensors the result is
// rounded once more. The mean has two words.
#include "arithmetic.glsl"
#include "mean_difference.glsl"
#include "widening.glsl"

uint gradient_of(uint x, uint gradient, uvec2 mean, uint of_gradients, uint slope, uint factor) {
    uint product = multiply_f32(difference_from(x, mean), slope);
    return multiply_f32(subtract_f32(subtract_f32(gradient, of_gradients), product), factor);
}

#define OPERATION(x, gradient, mean, of_gradients, slope, factor) \
    FORM(narrowed, OUTPUT)(gradient_of( \
        FORM(widened, INPUT_0)(x), FORM(widened, INPUT_1)(gradient), mean, of_gradients, slope, factor))
