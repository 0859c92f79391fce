// MATRIX_MULTIPLY_INTEGER_TO_FLOAT: what a sum of products of integers gives: sum * left_scale * right_scale, rounded once to float32;
// then with the bias, rounded again; then as OUTPUT. The compile script passes SUM_WORDS, the words of a sum: 1 or 3.
#include "products/scaled_sums.glsl"
#include "arithmetic.glsl"
#include "exact_scaling.glsl"

#if OUTPUT_BITS == 16
#define NUMBER_OF(x) float32_from_float16(x)
#define RESULT_OF(x) float16_from_float32(x)
#else
#define NUMBER_OF(x) (x)
#define RESULT_OF(x) (x)
#endif

uint result_of(Positions positions) {
    uint at = BASE_WORD(sums) + SUM_WORDS * positions.sums;
    uint low = words_sums[at];
#if SUM_WORDS == 1
    uint sign = int(low) < 0 ? 0xffffffffu : 0u;
    uvec3 sum = uvec3(low, sign, sign);
#else
    uvec3 sum = uvec3(low, words_sums[at + 1u], words_sums[at + 2u]);
#endif
    uint left = NUMBER_OF(LOAD(OUTPUT, words_left_scale, BASE(OUTPUT_BITS, left_scale) + positions.left_scale));
    uint right = NUMBER_OF(LOAD(OUTPUT, words_right_scale, BASE(OUTPUT_BITS, right_scale) + positions.right_scale));
    uint result = scaled_wide_sum(sum, left, right);
    if (HAS_BIAS) {
        uint bias = NUMBER_OF(LOAD(OUTPUT, words_bias, BASE(OUTPUT_BITS, bias) + positions.bias));
        result = add_f32(result, bias);
    }
    return RESULT_OF(result);
}
