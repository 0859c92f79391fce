// QUANTIZED_LINEAR_MATRIX_MULTIPLY, QUANTIZED_LINEAR_CONVOLUTION: what a sum of products of integers, with a bias modulo 2^32, gives:
// f = clamp(round(sum * left_scale * right_scale / scale) + zero), halves to even, by the exact quotient.
#include "products/scaled_sums.glsl"
#include "exact_scaling.glsl"

uint result_of(Positions positions) {
    uint sum = words_sums[BASE_WORD(sums) + positions.sums];
    int zero = 0;
    if (HAS_BIAS) { sum += words_bias[BASE_WORD(bias) + positions.bias]; }
    if (HAS_ZERO) { zero = int(LOAD(OUTPUT, words_zero, BASE(8, zero) + positions.zero)); }
    uint left = words_left_scale[BASE_WORD(left_scale) + positions.left_scale];
    uint right = words_right_scale[BASE_WORD(right_scale) + positions.right_scale];
    uint scale = words_scale[BASE_WORD(scale) + positions.scale];
    return CONCATENATE(saturated_, OUTPUT)(rounded_scaled_quotient(sum, left, right, scale) + zero);
}
