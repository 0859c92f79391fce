// LOCAL_RESPONSE_NORMALIZATION of up to five channels with a Beta of 1/4, 1/2 or 3/4, Bias from 2^-30 to 2^30 and 0 <= Alpha / LocalSize <= 2^20 Bias:
// squares and their sum in plain float32, in the order of a tree over all five, in which what there is not counts as 0.
//
// Errors, in units of 2^-24 of the result, to the first order: each square 1, three sums above it at most, the product and the sum with Bias 1
// each, so that no base is off by more than 6; its power by 6 Beta; the quotient, rounded once, by 1.04. Together that is less than the 3 + 4 Beta
// that the operator promises as long as Beta is at most 0.97. (N. J. Higham, «Accuracy and Stability of Numerical Algorithms», 4.2: the error of a sum
// of positive terms is bounded by the depth of its tree.)
//
// Nothing here is looked at before it is added. An infinite or NaN element, and what overflows, leaves a base that is too large, and is made anew by
// who includes this. Denormal squares, which devices keep or take for 0, leave no trace: they can change the rounding of sums below 2^-51 alone, times a
// factor of up to 2^20 Bias less than a quarter of the last place of Bias.

#include "quarter_power.glsl"

// What the power is made of, by five squares.
float quick_base(float a, float b, float c, float d, float e, float factor, float summand) {
    precise float left = a + b;
    precise float right = c + d;
    precise float four = left + right;
    precise float sum = four + e;
    precise float product = factor * sum;
    precise float base = summand + product;
    return base;
}

// Whether quotient_by_quarters may have them: |x| is 0 or at least 2^-40, and the base below 2^60. A base is positive or NaN.
bool is_quick(uint x, float base) {
    return (x & 0x7fffffffu) - 1u >= 0x2b7fffffu && floatBitsToUint(base) < 0x5d800000u;
}
