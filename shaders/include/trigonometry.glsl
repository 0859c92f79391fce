// Sine, cosine and tangent of every float32.
//
// x = k * pi/2 + r with an integer k and |r| <= pi/4: the sine is one of sin(r), cos(r), -sin(r) and -cos(r), the cosine the one
// that follows in this order, the tangent tan(r) or -1 / tan(r). r in two words is good to 2^-30 of itself. The sine and the
// cosine of r are a float plus a small correction, which the last addition rounds; so is the quotient that makes the tangent.
//
// Sources: W. J. Cody, W. Waite, «Software Manual for the Elementary Functions» (1980), for the reduction of small arguments;
// M. Payne, R. Hanek, «Radian reduction for trigonometric functions» (1983), for large ones; the minimax polynomials were
// made with Sollya.
#ifndef TRIGONOMETRY_GLSL
#define TRIGONOMETRY_GLSL

#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"
#include "quick_division.glsl"

// What is left of an angle.
struct Remainder {
    uint quadrant; // k, of which the last two bits are meant
    float high; // high + low is r, of which low is the lesser part by far where r is above 2^-20
    float low;
};

// From here on the multiples of pi/2 have more than 12 bits: 4096.
#define LARGE_ANGLE 0x45800000

// 0 <= x < 4096, in 10 operations, with the magic number 1.5 * 2^23 and what right angles are to be added. pi/2 is the sum of four
// constants; the first three have so few bits that their products with k < 2609 are exact, and so are the first two differences.
Remainder remainder_of_small(float x, float magic) {
    precise float shifted = x * 0.636619747 + magic; // 2/pi; the sum rounds to an integer
    precise float k = shifted - magic;
    precise float rest = exact_product_plus(k, 4.470348358154297e-06, exact_product_plus(k, -1.57080078125, x));
    precise float high = exact_product_plus(k, -1.589069142937660e-08, rest);
    precise float low = exact_product_plus(k, -1.589069142937660e-08, rest - high);
    low = low - k * 2.56334406826e-12;
    return Remainder(floatBitsToUint(shifted), high, low);
}

// The bits of a finite x >= 1, to which that many right angles are added, by right angles. Of the product of x with 2/pi only
// those bits are computed that count: two before the point and 62 behind it. The float32 nearest to a multiple of pi/2 leaves 29
// zeros there.
Remainder remainder_of_large(uint x, uint added_right_angles) {
    // The 128 bits of 2/pi from the place on at which products with x's last bit stop being multiples of 4; one of 4 words
    // at which they begin is chosen by two steps.
    int first_bit = int(x >> 23) - 128;
    bool second = (first_bit & 64) != 0;
    bool first = (first_bit & 32) != 0;
    uint a = second ? 0x4e441529u : 0u;
    uint b = second ? 0xfc2757d1u : 0xa2f9836eu;
    uint c = second ? 0xf534ddc0u : 0x4e441529u;
    uint d = second ? 0xdb629599u : 0xfc2757d1u;
    uint e = second ? 0x3c439041u : 0xf534ddc0u;
    uint left = uint(first_bit) & 31u;
    uint right = left ^ 31u;
    uint word_0 = first ? b : a;
    uint word_1 = first ? c : b;
    uint word_2 = first ? d : c;
    uint word_3 = first ? e : d;
    word_0 = (word_0 << left) | ((word_1 >> 1u) >> right);
    word_1 = (word_1 << left) | ((word_2 >> 1u) >> right);
    word_2 = (word_2 << left) | ((word_3 >> 1u) >> right);

    uint significand = (x << 8) | 0x80000000u;
    uint middle_high, middle_low, last_high, last_low;
    umulExtended(significand, word_1, middle_high, middle_low);
    umulExtended(significand, word_2, last_high, last_low);
    uint low_word = middle_low + last_high;
    uint high_word = significand * word_0 + middle_high + uint(low_word < last_high) + (added_right_angles << 30);

    // Behind the point, as a signed fraction: its magnitude is moved up to the first bit, and turned into radians.
    uint quadrant = (high_word + 0x20000000u) >> 30;
    uint fraction = (high_word << 2) | (low_word >> 30);
    uint sign = uint(int(fraction) >> 31);
    fraction ^= sign;
    uint zeros = uint(31 - findMSB(fraction));
    uint normalized = (fraction << zeros) | (((low_word << 2) ^ sign) >> 1u >> (31u - zeros));
    uint radians, unused;
    umulExtended(normalized, 0xc90fdaa2u, radians, unused);
    float unit = uintBitsToFloat((sign & 0x80000000u) | ((96u - zeros) << 23));
    precise float high = float(int(radians >> 8)) * (256.0 * unit);
    precise float low = float(int(radians & 255u)) * unit;
    Double r = fast_two_sum(high, low);
    return Remainder(quadrant, r.high, r.low);
}

// The same for bits from LARGE_ANGLE on; of infinities and NaN zero in the first quadrant.
Remainder remainder_of_large_or_none(uint x, uint added_right_angles) {
    Remainder r = remainder_of_large(x, added_right_angles);
    bool is_finite = int(x) < int(INFINITY_F32);
    return Remainder(is_finite ? r.quadrant : 0u, is_finite ? r.high : 0.0, is_finite ? r.low : 0.0);
}

// The sine of r, or the cosine where the quadrant is odd, rounded: for |r| <= pi/4. Either is a leading word, r or 1 - h^2/2, with
// the sum of all smaller terms: h is r in multiples of 2^-11, so that 1 - h^2/2 is exact. Both series have three terms, of which
// the coefficients are chosen. 18 operations and 8 choices.
float sine_or_cosine(Remainder r) {
    precise float head = (r.high + 6144.0) - 6144.0;
    precise float rest = (r.high - head) + r.low;
    precise float head_square = head * head;
    precise float square_rest = rest * (r.high + head);
    precise float square = head_square + square_rest;
    precise float below_one = exact_product_plus(-0.5, head_square, 1.0);
    precise float below_one_rest = -0.5 * square_rest;
    bool is_cosine = (r.quadrant & 1u) != 0u;
    float leading = is_cosine ? below_one : r.high;
    float low = is_cosine ? below_one_rest : r.low;
    float factor = is_cosine ? square : r.high;
    float first = is_cosine ? 0.0416666456 : -0.166666552;
    float second = is_cosine ? -0.00138873106 : 0.00833218917;
    float third = is_cosine ? 2.44325602e-05 : -0.000195182773;
    precise float series = first + square * (second + square * third);
    precise float value = leading + (low + (factor * square) * series);
    return value;
}

// What turns the bits of a result of the first two quadrants into that of the others.
uint sign_of_quadrant(uint quadrant) { return (quadrant << 30) & SIGN_F32; }

// Largest error over all 2^32 inputs: 0.8277 ULP (of 0xf559a1a4). 44 operations below 4096.
uint sin_f32(uint x) {
    uint magnitude = x & MAGNITUDE_F32;
    Remainder r = remainder_of_small(int(magnitude) < int(SMALLEST_NORMAL_F32) ? 0.0 : uintBitsToFloat(magnitude), 12582912.0);
    uint flips = x & SIGN_F32;
    if (int(magnitude) >= LARGE_ANGLE) {
        r = remainder_of_large_or_none(magnitude, 0u);
        flips = int(magnitude) >= int(INFINITY_F32) ? NAN_F32 : flips;
    }
    return floatBitsToUint(sine_or_cosine(r)) ^ sign_of_quadrant(r.quadrant) ^ flips;
}

// The cosine is the sine of what is a right angle more. Largest error over all 2^32 inputs: 0.8307 ULP (of 0x645f2688).
// 41 operations below 4096.
uint cos_f32(uint x) {
    uint magnitude = x & MAGNITUDE_F32;
    Remainder r = remainder_of_small(uintBitsToFloat(magnitude), 12582913.0);
    uint flips = 0u;
    if (int(magnitude) >= LARGE_ANGLE) {
        r = remainder_of_large_or_none(magnitude, 1u);
        flips = int(magnitude) >= int(INFINITY_F32) ? NAN_F32 : 0u;
    }
    return floatBitsToUint(sine_or_cosine(r)) ^ sign_of_quadrant(r.quadrant) ^ flips;
}

// The same but for large angles (FAST_PATH_OPERATION, elementwise_contiguous.glsl).
uint ordinary_sin_f32(uint x, out bool needs_slow_path) {
    uint magnitude = x & MAGNITUDE_F32;
    Remainder r = remainder_of_small(magnitude < SMALLEST_NORMAL_F32 ? 0.0 : uintBitsToFloat(magnitude), 12582912.0);
    needs_slow_path = magnitude >= uint(LARGE_ANGLE);
    return floatBitsToUint(sine_or_cosine(r)) ^ sign_of_quadrant(r.quadrant) ^ (x & SIGN_F32);
}
uint ordinary_cos_f32(uint x, out bool needs_slow_path) {
    uint magnitude = x & MAGNITUDE_F32;
    Remainder r = remainder_of_small(uintBitsToFloat(magnitude), 12582913.0);
    needs_slow_path = magnitude >= uint(LARGE_ANGLE);
    return floatBitsToUint(sine_or_cosine(r)) ^ sign_of_quadrant(r.quadrant);
}

FLOAT16_FORM_1(sin)
FLOAT16_FORM_1(cos)

#endif
