// A step of BATCH_NORMALIZATION_TRAINING_GRAD: (sum + (mean - Mean) * sum of gradients) / sqrt(Variance + Epsilon), each step rounded to FLOAT32; of
// FLOAT16 tensors the result is rounded once more. The mean has two words.
#include "arithmetic.glsl"
#include "division.glsl"
#include "mean_difference.glsl"
#include "widening.glsl"

// difference_from has the mean on its right. A sum that is infinite stays so: with infinite gradients the other one is, too.
uint scale_gradient(uint sum, uint of_gradients, uvec2 mean, uint given, uint variance) {
    uint moved = subtract_f32(sum, multiply_f32(difference_from(given, mean), of_gradients));
    moved = int(sum & MAGNITUDE_F32) >= int(INFINITY_F32) ? sum : moved;
    return divide_f32(moved, sqrt_f32(add_f32(variance, parameters.attributes[0])));
}

#define OPERATION(sum, of_gradients, mean, given, variance) \
    FORM(narrowed, OUTPUT)(scale_gradient( \
        sum, of_gradients, mean, FORM(widened, INPUT_3)(given), FORM(widened, INPUT_4)(variance)))
