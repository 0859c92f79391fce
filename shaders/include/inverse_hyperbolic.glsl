// The inverse hyperbolic functions: near zero, or one, by polynomials of their own, elsewhere as logarithms.
//
// The logarithm's argument z is found in two words: an error of 2^-28 there is one of 2^-28 in the result, a fraction of a unit in the
// last place. z = 2^k * (1 + f), or for the inverse hyperbolic tangent 2^k * (1 + t) / (1 - t); k * ln 2 and the leading word of what
// is added to it have so few bits, or it is so small, that one rounding decides the result. The minimax polynomials were made with
// Sollya's fpminimax (S. Chevillard et al., 2010).
#ifndef INVERSE_HYPERBOLIC_GLSL
#define INVERSE_HYPERBOLIC_GLSL

#include "logarithm.glsl"

// From here on asinh and acosh are ln(2 * x) to within 2^-31 of themselves: 2^13.
#define HUGE_F32 0x46000000

// The first 12 bits of a square root, rounded, and what the rest of it is found with: what is left of the square beside head^2,
// times half_inverse, is that rest within 2^-25 of the root.
struct Root {
    float head;
    float half_inverse; // 1 / (2 * sqrt(square))
};

// For 2^-60 <= square <= 2^60, and for 0. 15 operations: as quick_square_root.
Root root_head(float square)
{
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
float logarithm_of_sum(float first, float second, float rest, float bias)
{
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

// ln(a + sqrt(a^2 + 1)), for 1 <= a. The heads of both have 12 bits, so that the difference of their squares is exact. 57 operations.
float asinh_above_one(float a)
{
    precise float head = leading_half(a);
    precise float rest = a - head;
    precise float square = a * a + 1.0;
    Root root = root_head(square);
    precise float missing = ((head - root.head) * (head + root.head) + 1.0) + rest * (a + head);
    precise float root_rest = missing * root.half_inverse;
    float other = root.head;
    float bias = EXPONENT_BIAS;
    if (floatBitsToInt(a) >= HUGE_F32) {
        head = head * 5.42101086e-20; // 2^-64
        rest = rest * 5.42101086e-20;
        other = head;
        root_rest = rest;
        bias = EXPONENT_BIAS + 64.0;
    }
    precise float both_rests = rest + root_rest;
    return logarithm_of_sum(head, other, both_rests, bias);
}

// asinh x. Odd; infinities stay. Up to 1 it is a + a^3 * p(a^2). Largest error over all 2^32 inputs: 0.8403 ULP, at 1.17345083
// (0x3f9633a3). 29 operations up to 1, about 72 above.
uint asinh_f32(uint x)
{
    int magnitude = int(x & MAGNITUDE_F32);
    precise float a = intBitsToFloat(magnitude);
    float value;
    if (magnitude > int(ONE_F32)) {
        value = asinh_above_one(a);
        value = magnitude == int(INFINITY_F32) ? a : value;
    } else {
        precise float square = a * a;
        precise float series = -0.00383831211 + square * 0.000673947332;
        series = 0.0104306778 + square * series;
        series = -0.0191819631 + square * series;
        series = 0.029456256 + square * series;
        series = -0.044487875 + square * series;
        series = 0.0749871582 + square * series;
        series = -0.166666299 + square * series;
        precise float sum = a + (a * square) * series;
        value = sum;
    }
    uint result = magnitude < int(SMALLEST_NORMAL_F32) ? 0u : floatBitsToUint(value);
    return magnitude > int(INFINITY_F32) ? NAN_F32 : result | (x & SIGN_F32);
}
FLOAT16_FORM_1(asinh)

// acosh x. Of 1 +0, of what is below 1 NaN. Up to 2, with t = x - 1, it is sqrt(2 * t) * (1 + t * p(t)); above, ln(x + sqrt(x^2 - 1)).
// Largest error over all 2^32 inputs: 0.71 ULP, at 2.89452052 (0x40393fd3). 49 operations up to 2, about 70 above.
uint acosh_f32(uint x)
{
    int bits = int(x);
    precise float a = uintBitsToFloat(x);
    precise float t = a - 1.0;
    precise float head = leading_half(a);
    precise float rest = a - head;
    bool is_small = bits <= 0x40000000;
    precise float doubled = t + t;
    precise float beside_one = a * a - 1.0;
    Root root = root_head(is_small ? doubled : beside_one);
    float value;
    if (is_small) {
        precise float linear = exact_product_plus(-root.head, root.head, doubled) * root.half_inverse;
        precise float root_rest = linear + (linear * linear) * root.half_inverse;
        precise float series = -0.000506937213 + t * 8.28292832e-05;
        series = 0.00178835448 + t * series;
        series = -0.00554634538 + t * series;
        series = 0.0187450517 + t * series;
        series = -0.0833330899 + t * series;
        precise float sum = root.head + (root_rest + ((root.head + root_rest) * t) * series);
        value = sum;
    } else {
        precise float missing = ((head - root.head) * (head + root.head) - 1.0) + rest * (a + head);
        precise float root_rest = missing * root.half_inverse;
        float other = root.head;
        float bias = EXPONENT_BIAS;
        if (bits >= HUGE_F32) {
            head = head * 5.42101086e-20; // 2^-64
            rest = rest * 5.42101086e-20;
            other = head;
            root_rest = rest;
            bias = EXPONENT_BIAS + 64.0;
        }
        precise float both_rests = rest + root_rest;
        value = logarithm_of_sum(head, other, both_rests, bias);
        value = bits == int(INFINITY_F32) ? a : value;
    }
    bool is_defined = bits >= int(ONE_F32) && bits <= int(INFINITY_F32);
    return is_defined ? floatBitsToUint(value) : NAN_F32;
}
FLOAT16_FORM_1(acosh)

// atanh x. Odd; of +-1 infinities, beyond NaN. Up to 1/2 atanh(a) is a + a^3 * p(a^2). Above, with g = 1 - a and the power of two
// p = 2^k that brings p * g between 1.2 and 2.4, it is k/2 * ln 2 + atanh(t) with t = (2 - p * g - g) / (2 + p * g - g), where g and
// the dividend are exact; the same polynomial serves t, whose magnitude is below 0.26.
// Largest error over all 2^32 inputs: 0.8324 ULP, at -0.701322794 (0xbf3389e4). 53 operations.
uint atanh_f32(uint x)
{
    int magnitude = int(x & MAGNITUDE_F32);
    precise float a = intBitsToFloat(magnitude);
    precise float g = 1.0 - a;
    uint power_bits = (0x7f99999au - floatBitsToUint(g)) & 0xff800000u;
    precise float multiple = uintBitsToFloat(power_bits) * g;
    precise float over = (2.0 - multiple) - g;
    precise float under = exact_product_plus(2.0, multiple, over);
    precise float inverse = uintBitsToFloat(0x7ef33400u - floatBitsToUint(under));
    inverse = inverse * (2.00127991 - under * inverse);
    inverse = inverse * (2.00000072 - under * inverse);
    precise float quotient = over * inverse;
    precise float missing = (over - quotient * under) * inverse;
    precise float exponent = uintBitsToFloat((power_bits >> 23) + 0x4affff81u) - 8388608.0; // k: 0x4b000000 is 2^23
    precise float lesser = exponent * 7.14303385e-7 + missing; // the rest of ln 2 / 2

    bool is_small = magnitude <= 0x3f000000;
    float t = is_small ? a : quotient;
    float k = is_small ? 0.0 : exponent;
    float low = is_small ? 0.0 : lesser;
    precise float square = t * t;
    precise float series = 0.0516194887 + square * 0.176356837;
    series = 0.118160061 + square * series;
    series = 0.142238259 + square * series;
    series = 0.200024515 + square * series;
    series = 0.333333015 + square * series;
    // k times the first word of ln 2 / 2, and t: the sum in two words.
    precise float leading = exact_product_plus(k, 0.3465728759765625, t);
    precise float leading_rest = t - exact_product_plus(k, -0.3465728759765625, leading);
    precise float value = leading + (leading_rest + ((t * square) * series + low));
    uint result = magnitude < int(SMALLEST_NORMAL_F32) ? 0u : floatBitsToUint(value);
    result = magnitude == int(ONE_F32) ? INFINITY_F32 : result;
    return magnitude > int(ONE_F32) ? NAN_F32 : result | (x & SIGN_F32);
}
FLOAT16_FORM_1(atanh)

#endif
