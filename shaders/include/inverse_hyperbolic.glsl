// What the inverse hyperbolic sine and cosine share: they are logarithms where they have no rows of coefficients.
//
// The logarithm's argument z is given in two words: an error of 2^-28 there is one of 2^-28 in the result, a fraction of a unit in the
// last place. z = 2^k * (1 + f); k * ln 2 and the leading word of what is added to it have so few bits, or it is so small, that one
// rounding decides the result. The minimax polynomial was made with Sollya's fpminimax (S. Chevillard et al., 2010).
#ifndef INVERSE_HYPERBOLIC_GLSL
#define INVERSE_HYPERBOLIC_GLSL

#include "logarithm.glsl"

// The first 12 bits of a square root, rounded, and what the rest of it is found with: what is left of the square beside head^2,
// times half_inverse, is that rest within 2^-25 of the root.
struct Root {
    float head;
    float half_inverse; // 1 / (2 * sqrt(square))
};

// For 2^-60 <= square <= 2^60, and for 0. 15 operations: as quick_square_root.
Root root_head(float square) {
    precise float half_square = 0.5 * square;
    precise float inverse = uintBitsToFloat(0x5f376800u - (floatBitsToUint(square) >> 1));
    inverse = inverse * (1.50081661 - (half_square * inverse) * inverse);
    inverse = inverse * (1.50000072 - (half_square * inverse) * inverse);
    precise float guess = square * inverse;
    float head = uintBitsToFloat((floatBitsToUint(guess) + 0x800u) & 0xfffff000u);
    precise float half_inverse = 0.5 * inverse;
    return Root(head, half_inverse);
}

// k's bias in logarithm_of_sum: 2^23 + 127.
#define EXPONENT_BIAS 8388735.0

// ln(first + second + rest) + (bias - EXPONENT_BIAS) * ln 2, rounded, for words of 12 bits whose sum is exact, and a rest that is below
// 2^-10 of it. The result has to be above 1/2. k * ln 2 + f - f^2 * q(f): but for the rest of f, the first two are added exactly.
// 30 operations.
float logarithm_of_sum(float first, float second, float rest, float bias) {
    precise float sum = first + second;
    uint scale_bits = (0x7f2fffffu - floatBitsToUint(sum)) & 0xff800000u; // 2^-k, where sum is 11/16 to 11/8 of 2^k
    float scale = uintBitsToFloat(scale_bits);
    precise float k = bias - uintBitsToFloat((scale_bits >> 23) + 0x4b000000u); // 0x4b000000 is 2^23
    precise float head = exact_product_plus(sum, scale, -1.0);
    precise float f = exact_product_plus(rest, scale, head);
    precise float q = -0.153244242 + f * 0.112121857;
    q = 0.145631879 + f * q;
    q = -0.164138063 + f * q;
    q = 0.199758082 + f * q;
    q = -0.250087857 + f * q;
    q = 0.333338558 + f * q;
    q = -0.499999076 + f * q;
    precise float bend = f * (f * q);
    precise float low = exact_product_plus(rest, scale, k * LN2_REST) + bend;
    precise float value = exact_product_plus(k, LN2_16_BITS, head) + low;
    return value;
}

// ln(2 * x), which asinh(x) and acosh(x) are to within 2^-31 of themselves from 2^13 on; of infinity that. About 40 operations.
float logarithm_of_double(float x) {
    precise float quarter = x * 5.42101086e-20; // 2^-64: 2 * x may be infinite
    precise float head = leading_half(quarter);
    precise float rest = quarter - head;
    precise float doubled_rest = rest + rest;
    float value = logarithm_of_sum(head, head, doubled_rest, EXPONENT_BIAS + 64.0);
    return floatBitsToUint(x) == INFINITY_F32 ? x : value;
}

#endif
