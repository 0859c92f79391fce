// Sums of squared differences from a mean, for the variance that a normalization divides by: half of the variance's relative error is the
// result's, so that differences, squares and sums of four are rounded to float32. Only the sums of fours are added up in two words.
//
// Errors, in units of u = 2^-24, to the first order. A difference is off by 1, its square by 2 + 1, the sum of four of them by two more
// additions: 5, and so the variance, of which half counts: 2.5. (All terms are positive: no sum is off by more than its terms and its own
// rounding. N. J. Higham, «Accuracy and Stability of Numerical Algorithms», 4.2.) The variance is rounded, and its sum with Epsilon: 0.5
// each. Where their root is s * 2^e, 1 <= s < 2, it is off by 1 / s, half a place, and its reciprocal, 2 / s * 2^(-e - 1), by s / 2: 1.5
// together at most. The difference itself, its product with the factor and that with Scale are off by 1 each. Altogether these are
// 2.5 + 1 + 1.5 + 3 = 8: four ULP of the product.
//
// No bit depends on what a device makes of denormal numbers. Differences of what is zero or 2^-102 at least are multiples of 2^-125. A square
// below 2^-126 leaves no trace in a sum that begins with FLOOR_OF_SQUARES, 2^-101, of which half a place is 2^-125. Nor does the floor in
// a square from 2^-76 on; lesser ones are below 2^-11 of an ordinary sum of four, which is 2^-64 at least, and the floors below 2^-36 of it.
#ifndef ROUNDED_SQUARES_GLSL
#define ROUNDED_SQUARES_GLSL

#include "term_sums.glsl"

#define FLOOR_OF_SQUARES 0x0d000000u
#define LEAST_ORDINARY_FOUR 0x1f800000u // 2^-64
#define LEAST_LARGE_FOUR 0x6c800000u    // 2^90

// What others are multiplied by before they are squared: small ones, all below 2^-32, and large ones, so that no square of a number overflows.
#define SMALL_DIFFERENCE_SCALE 0x55000000u // 2^43
#define LARGE_DIFFERENCE_SCALE 0x17800000u // 2^-80
#define SMALL_FOUR_EXPONENT 86
#define LARGE_FOUR_EXPONENT 160

float sum_of_two_squares(float a, float b) {
    precise float first = a * a + uintBitsToFloat(FLOOR_OF_SQUARES);
    precise float sum = first + b * b;
    return sum;
}
float sum_of_four_squares(vec4 x) {
    precise float sum = sum_of_two_squares(x.x, x.y) + sum_of_two_squares(x.z, x.w);
    return sum;
}

// What with_next_four gives of a number without second word.
Double with_next_number(Double sum, float next) {
    Double total = two_sum(sum.high, next);
    precise float low = sum.low + total.low;
    return Double(total.high, low);
}

uint special_flags_of(float x) {
    uint bits = floatBitsToUint(x);
    return int(bits & MAGNITUDE_F32) >= int(INFINITY_F32) ? special_flags(bits) : 0u;
}

float sum_of_scaled_squares(vec4 x, uint scale) {
    precise vec4 scaled = x * uintBitsToFloat(scale);
    return sum_of_four_squares(scaled);
}

// The sum with four more squares, of any differences.
TermSum with_four_squares(TermSum state, vec4 x) {
    uint special = special_flags_of(x.x) | special_flags_of(x.y) | special_flags_of(x.z) | special_flags_of(x.w);
    uint four = floatBitsToUint(sum_of_four_squares(x));
    if (special != 0u) {
        state.flags |= special;
    } else if (four < LEAST_ORDINARY_FOUR) {
        state.flags |= HAS_OUTER_TERMS;
        state.small = with_next_number(state.small, sum_of_scaled_squares(x, SMALL_DIFFERENCE_SCALE));
    } else if (four >= LEAST_LARGE_FOUR) {
        state.flags |= HAS_OUTER_TERMS;
        state.large = with_next_number(state.large, sum_of_scaled_squares(x, LARGE_DIFFERENCE_SCALE));
    } else {
        state.ordinary = with_next_number(state.ordinary, uintBitsToFloat(four));
    }
    return state;
}

// What such a sum comes to, as sum_of_terms gives it.
Double total_of_squares(TermSum sum, out int exponent) {
    return total_of_scaled(sum, SMALL_FOUR_EXPONENT, LARGE_FOUR_EXPONENT, exponent);
}

#endif
