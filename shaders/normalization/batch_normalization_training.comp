// The last step of BATCH_NORMALIZATION_TRAINING: FusedActivation((x - mean) * factor + Bias + FusedAdd), each step rounded to FLOAT32; of FLOAT16
// tensors the last result is rounded once more. The mean has two words.
#include "fused_activation.glsl"
#include "elementwise/elementwise_operands.glsl"
#include "arithmetic.glsl"
#include "comparison.glsl"
#include "mean_difference.glsl"
#include "widening.glsl"

#define HAS_ADDED (parameters.attributes[0] != 0u)

uint normalized(uint x, uvec2 mean, uint factor, uint bias, uint added) {
    uint result = add_f32(multiply_f32(difference_from(x, mean), factor), bias);
    return HAS_ADDED ? add_f32(result, added) : result;
}

#define OPERATION(x, mean, factor, bias, added) \
    ACTIVATED(FORM(narrowed, OUTPUT)(normalized( \
        FORM(widened, INPUT_0)(x), mean, factor, FORM(widened, INPUT_3)(bias), FORM(widened, INPUT_4)(added))))
