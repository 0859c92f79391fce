// A step of BATCH_NORMALIZATION_TRAINING_GRAD: (sum / n) / (Variance + Epsilon), or sum / n alone, each step rounded to FLOAT32.
#include "arithmetic.glsl"
#include "division.glsl"
#include "widening.glsl"

#define COUNT parameters.attributes[0] // n, as FLOAT32
#define EPSILON parameters.attributes[1]
#define IS_MEAN (parameters.attributes[2] != 0u)

uint slope(uint sum, uint variance) {
    uint mean = divide_f32(sum, COUNT);
    return IS_MEAN ? mean : divide_f32(mean, add_f32(variance, EPSILON));
}

#define OPERATION(sum, variance) slope(sum, FORM(widened, INPUT_1)(variance))
