// Sine, cosine and tangent of every float32.
//
// x = k * pi + r for the sine, (k + 1/2) * pi + r for the cosine, with an integer k and |r| <= pi/2: the result is the sine of r
// or of -r. x = k * pi/2 + r for the tangent, which is that of r or -1 / tan(r). r in two words is good to 2^-30 of itself. The sine
// of r is a float plus a small correction, which the last addition rounds; so is the quotient that makes the tangent.
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
    uint count; // k, of which the last bits are meant
    float high; // high + low is r, of which low is the lesser part by far where r is above 2^-20
    float low;
};

// From here on the multiples of pi/2 have more than 12 bits: 4096.
#define LARGE_ANGLE 0x45800000

// 0 <= x < 4096, in 13 operations. pi/2 is the sum of four constants; the first three have so few bits that their products
// with k < 2609 are exact, and so are the first two differences.
Remainder remainder_of_small(float x)
{
    precise float shifted = x * 0.636619747 + 12582912.0; // 2/pi; the sum rounds to an integer
    precise float k = shifted - 12582912.0;
    precise float rest = (x - k * 1.57080078125) + k * 4.470348358154297e-06;
    precise float part = k * 1.589069142937660e-08;
    precise float high = rest - part;
    precise float low = (rest - high) - part;
    low = low - k * 2.56334406826e-12;
    return Remainder(floatBitsToUint(shifted), high, low);
}

// The bits of a finite x >= 1, to which that many right angles are added: x by right angles, with k's last two bits, or by
// half turns, with the last one. Of the product of x with 2/pi only those bits are computed that count: two before the point
// and 62 behind it. The float32 nearest to a multiple of pi/2 leaves 29 zeros there.
Remainder remainder_of_large(uint x, uint added_right_angles, bool by_half_turns)
{
    // The 128 bits of 2/pi from the place on at which products with x's last bit stop being multiples of 4; one of 4 words
    // at which they begin is chosen by two steps.
    int place = int(x >> 23) - 128;
    bool second = (place & 64) != 0;
    bool first = (place & 32) != 0;
    uint a = second ? 0x4e441529u : 0u;
    uint b = second ? 0xfc2757d1u : 0xa2f9836eu;
    uint c = second ? 0xf534ddc0u : 0x4e441529u;
    uint d = second ? 0xdb629599u : 0xfc2757d1u;
    uint e = second ? 0x3c439041u : 0xf534ddc0u;
    uint left = uint(place) & 31u;
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
    uint before = by_half_turns ? 1u : 2u;
    uint count = (high_word + (0x80000000u >> before)) >> (32u - before);
    uint fraction = (high_word << before) | (low_word >> (32u - before));
    uint sign = uint(int(fraction) >> 31);
    fraction ^= sign;
    uint zeros = uint(31 - findMSB(fraction));
    uint normalized = (fraction << zeros) | (((low_word << before) ^ sign) >> 1u >> (31u - zeros));
    uint radians, unused;
    umulExtended(normalized, 0xc90fdaa2u, radians, unused);
    float unit = uintBitsToFloat((sign & 0x80000000u) | ((98u - before - zeros) << 23));
    precise float high = float(int(radians >> 8)) * (256.0 * unit);
    precise float low = float(int(radians & 255u)) * unit;
    Double r = fast_two_sum(high, low);
    return Remainder(count, r.high, r.low);
}

// x is the bits of a finite number without its sign, and without denormals.
Remainder remainder_by_right_angle(uint x)
{
    if (int(x) >= LARGE_ANGLE) {
        return remainder_of_large(x, 0u, false);
    }
    return remainder_of_small(uintBitsToFloat(x));
}

// x < 4096 by half turns, in 13 operations: as remainder_of_small, with constants twice as large.
Remainder remainder_by_half_turns(float x)
{
    precise float shifted = x * 0.318309873 + 12582912.0; // 1/pi
    precise float k = shifted - 12582912.0;
    precise float rest = (x - k * 3.1416015625) + k * 8.940696716308594e-06;
    precise float part = k * 3.178138285875320e-08;
    precise float high = rest - part;
    precise float low = (rest - high) - part;
    low = low - k * 5.126688303189e-12;
    return Remainder(floatBitsToUint(shifted), high, low);
}

// What is left of x < 4096 beyond (k + 1/2) * pi, in 18 operations. The second constant is such that a rest between 1 and 2
// is exact. Only the first difference may not be: of x < 1, from half of pi.
Remainder remainder_beyond_right_angle(float x)
{
    precise float shifted = (x * 0.318309873 - 0.5) + 12582912.0;
    precise float k = (shifted - 12582912.0) + 0.5;
    precise float multiple = k * 3.1416015625;
    precise float difference = x - multiple;
    precise float lost = x - (difference + multiple);
    precise float rest = difference + k * 8.8214874267578125e-06;
    precise float part = k * -8.742790669202805e-08;
    precise float high = rest - part;
    precise float low = ((rest - high) - part) + lost;
    low = low - k * 5.126688303189e-12;
    return Remainder(floatBitsToUint(shifted), high, low);
}

// The sine for |r| <= pi/2, rounded: sin(r) = r - 9/64 r^3 - r^3 * (5/192 - r^2/120 + ...), 9/64 being what keeps the last term
// below 1/30. The first two are exact for a head of r that has 6 bits, and what the cube has beside that is small. 29 operations.
float sine_within_right_angles(Remainder r)
{
    precise float head = uintBitsToFloat((floatBitsToUint(r.high) + 0x20000u) & 0xfffc0000u);
    precise float rest = (r.high - head) + r.low;
    precise float head_square = head * head;
    precise float v = (head_square - 1.5) + rest * (r.high + head);
    precise float square = v + 1.5;
    precise float bend = 0.140625 * (head_square * head);
    precise float bend_rest = 0.140625 * (rest * ((square + head_square) + r.high * head));
    precise float sine = r.high - bend;
    precise float tail = (((r.high - sine) - bend) + r.low) - bend_rest;
    precise float series = 2.60916954e-06 + v * -2.38279423e-08;
    series = 0.0077563622 + v * (-0.000186345205 + v * series);
    series = -0.0139789199 + v * series;
    precise float value = sine + (tail + (r.high * square) * series);
    return value;
}

// Largest error over all 2^32 inputs: 0.679 ULP (of 0x61e48ada). 55 operations below 4096.
uint sin_f32(uint x)
{
    uint magnitude = x & MAGNITUDE_F32;
    Remainder r = remainder_by_half_turns(as_float32(magnitude));
    if (int(magnitude) >= LARGE_ANGLE) {
        r = remainder_of_large(magnitude, 0u, true);
    }
    uint bits = floatBitsToUint(sine_within_right_angles(r)) ^ (r.count << 31) ^ (x & SIGN_F32);
    return int(magnitude) >= int(INFINITY_F32) ? NAN_F32 : bits;
}

// The cosine is the sine of what is a right angle more. Largest error over all 2^32 inputs: 0.681 ULP (of 0x71d981b8).
// 59 operations below 4096.
uint cos_f32(uint x)
{
    uint magnitude = x & MAGNITUDE_F32;
    Remainder r = remainder_beyond_right_angle(as_float32(magnitude));
    r.count += 1u;
    if (int(magnitude) >= LARGE_ANGLE) {
        r = remainder_of_large(magnitude, 1u, true);
    }
    uint bits = floatBitsToUint(sine_within_right_angles(r)) ^ (r.count << 31);
    return int(magnitude) >= int(INFINITY_F32) ? NAN_F32 : bits;
}

// Below 2^-20 the tangent of x is x, rounded: and quotients of the smallest numbers would have denormal parts.
#define SMALL_ANGLE 0x35800000

// With d = 2 tan(r/2), which is r + r^3/12 + ..., the tangent of r is d / (1 - d^2/4), and for odd multiples of pi/2 the result is
// that upside down, with the other sign. Largest error over all 2^32 inputs: 0.708 ULP (of 0x6b7855f3). 80 operations below 4096.
uint tan_f32(uint x)
{
    uint magnitude = x & MAGNITUDE_F32;
    Remainder r = remainder_by_right_angle(magnitude);
    precise float square = r.high * r.high;
    precise float series = 8.39523491e-05 + square * 1.06179022e-05;
    series = 8.43735528e-04 + square * series;
    series = 0.00833326858 + square * series;
    series = 0.0833333358 + square * series;
    Double d = fast_two_sum(r.high, (r.high * square) * series);
    precise float d_low = d.low + (r.low + r.low * (0.25 * square));

    float head = leading_half(d.high);
    precise float rest = (d.high - head) + d_low;
    precise float quarter = 0.25 * (head * head); // exact
    precise float difference = 1.0 - quarter;
    precise float left = ((1.0 - difference) - quarter) - 0.25 * (rest * (d.high + head));

    bool odd = (r.count & 1u) != 0u;
    precise float over = odd ? difference : d.high;
    precise float over_rest = odd ? left : d_low;
    precise float under = odd ? d.high : difference;
    precise float under_rest = odd ? d_low : left;
    // As quick_quotient, but that what is left under the line may be as large as 2^-13 of it. (The sign of a divisor stays.)
    precise float divisor = under + under_rest;
    precise float inverse = quick_inverse(divisor);
    precise float guess = (over + over_rest) * inverse; // next to multiples of pi/2 the rest may be an eighth of r
    float quotient = leading_half(guess);
    float divisor_head = leading_half(divisor);
    precise float divisor_tail = (under - divisor_head) + under_rest;
    precise float missing = ((over - quotient * divisor_head) - quotient * divisor_tail) + over_rest;
    precise float value = quotient + missing * inverse;

    uint bits = floatBitsToUint(value) ^ (r.count << 31) ^ (x & SIGN_F32);
    bits = int(magnitude) < SMALL_ANGLE ? without_denormal(x) : bits;
    return int(magnitude) >= int(INFINITY_F32) ? NAN_F32 : bits;
}

FLOAT16_FORM_1(sin)
FLOAT16_FORM_1(cos)
FLOAT16_FORM_1(tan)

#endif
