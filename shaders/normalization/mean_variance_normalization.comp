// The last step of MEAN_VARIANCE_NORMALIZATION: FusedActivation((x - mean) * factor * Scale + Bias), each step rounded to FLOAT32; of FLOAT16 tensors the
// last result is rounded once more. The mean has two words. Steps whose operand is absent are left out.
#include "fused_activation.glsl"
#include "elementwise/elementwise_operands.glsl"
#include "arithmetic.glsl"
#include "comparison.glsl"
#include "mean_difference.glsl"
#include "widening.glsl"

#define HAS_MEAN ((parameters.attributes[0] & 1u) != 0u)
#define HAS_FACTOR ((parameters.attributes[0] & 2u) != 0u)
#define HAS_SCALE ((parameters.attributes[0] & 4u) != 0u)
#define HAS_BIAS ((parameters.attributes[0] & 8u) != 0u)

uint normalized(uint x, uvec2 mean, uint factor, uint scale, uint bias) {
    uint result = without_denormal(x);
    if (HAS_MEAN) { result = difference_from(x, mean); }
    if (HAS_FACTOR) { result = multiply_f32(result, factor); }
    if (HAS_SCALE) { result = multiply_f32(result, scale); }
    if (HAS_BIAS) { result = add_f32(result, bias); }
    return canonical_f32(result);
}

#define OPERATION(x, mean, factor, scale, bias) \
    ACTIVATED(FORM(narrowed, OUTPUT)(normalized( \
        FORM(widened, INPUT_0)(x), mean, factor, FORM(widened, INPUT_3)(scale), FORM(widened, INPUT_4)(bias))))
