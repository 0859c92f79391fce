// Sine, cosine and tangent of every float32.
//
// x = k * pi/2 + r with an integer k and |r| <= pi/4; r in two words is good to 2^-30 of itself. Sine and cosine of r are a
// float plus a small correction, which the last addition rounds.
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
    float high;    // high + low is r; low may be as large as the last place of high
    float low;
};

// From here on the multiple of pi/2 has more than 12 bits: 4096.
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

// The bits of a finite x >= 1. Of the product of x with 2/pi only those bits are computed that count: two before the point
// and 62 behind it. The float32 nearest to a multiple of pi/2 leaves 29 zeros there.
Remainder remainder_of_large(uint x)
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
    uint high_word = significand * word_0 + middle_high + uint(low_word < last_high);

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
    return Remainder(quadrant, high, low);
}

// x is the bits of a finite number without its sign, and without denormals.
Remainder remainder_by_right_angle(uint x)
{
    if (int(x) >= LARGE_ANGLE) {
        return remainder_of_large(x);
    }
    return remainder_of_small(uintBitsToFloat(x));
}

// What sine and cosine begin with: a head of r that has 8 bits, so that its cube is exact, and what follows from it.
struct Angle {
    float head;
    float rest;          // r - head
    float head_square;   // exact
    float square_excess; // r * r - head * head
};

Angle angle_of(Remainder r)
{
    precise float head = uintBitsToFloat((floatBitsToUint(r.high) + 0x8000u) & 0xffff0000u);
    precise float rest = (r.high - head) + r.low;
    precise float head_square = head * head;
    precise float square_excess = rest * (r.high + head);
    return Angle(head, rest, head_square, square_excess);
}

// sin(r) = r - r^3/8 - r^3 * (1/24 - r^2/120 + ...): the head's part of the cube's eighth is exact, what follows is small.
Double sine_of_remainder(Remainder r, Angle angle)
{
    precise float square = angle.head_square + angle.square_excess;
    precise float cube = r.high * square;
    precise float bend = 0.125 * (angle.head_square * angle.head);
    precise float sine = r.high - bend;
    precise float tail = ((r.high - sine) - bend) + r.low;
    tail = tail - (angle.square_excess * (r.high + angle.head)) * 0.09375;
    precise float series = 0.00833334122 + square * (-0.000198422189 + square * 0.00000274042554);
    series = -0.0416666679 + square * series;
    tail = tail + cube * series;
    return Double(sine, tail);
}

Double cosine_of_remainder(Remainder r, Angle angle)
{
    precise float square = angle.head_square + angle.square_excess;
    precise float bend = 0.5 * angle.head_square;
    precise float cosine = 1.0 - bend;
    precise float tail = ((1.0 - cosine) - bend) - 0.5 * angle.square_excess;
    precise float series = 0.0416666456 + square * (-0.00138873106 + square * 0.0000244325583);
    tail = tail + (square * square) * series;
    return Double(cosine, tail);
}

// The sine of x for zero turns, its cosine for one.
uint sine_after(uint magnitude, uint turns, uint sign)
{
    Remainder r = remainder_by_right_angle(int(magnitude) < int(SMALLEST_NORMAL_F32) ? 0u : magnitude);
    Angle angle = angle_of(r);
    Double sine = sine_of_remainder(r, angle);
    Double cosine = cosine_of_remainder(r, angle);
    uint quadrant = r.quadrant + turns;
    bool odd = (quadrant & 1u) != 0u;
    precise float value = (odd ? cosine.high : sine.high) + (odd ? cosine.low : sine.low);
    uint bits = floatBitsToUint(value) ^ (quadrant << 30 & SIGN_F32);
    return int(magnitude) >= int(INFINITY_F32) ? NAN_F32 : bits ^ sign;
}

// Largest errors found among every 17th float32: 0.579 ULP for the sine (of 0xfb5d96d3), 0.575 for the cosine (of
// 0x5c61e706). 68 operations below 4096.
uint sin_f32(uint x) { return sine_after(x & MAGNITUDE_F32, 0u, x & SIGN_F32); }
uint cos_f32(uint x) { return sine_after(x & MAGNITUDE_F32, 1u, 0u); }

// Below 2^-20 the tangent of x is x, rounded: and quotients of the smallest numbers would have denormal parts.
#define SMALL_ANGLE 0x35800000

// Largest error found among every 41st float32: 0.642 ULP (of 0x6a6f53fd). 95 operations below 4096.
uint tan_f32(uint x)
{
    uint magnitude = x & MAGNITUDE_F32;
    Remainder r = remainder_by_right_angle(magnitude);
    Angle angle = angle_of(r);
    // Names of their own: glslang never ends where a structure is made anew from its own members before a `precise` use.
    Double sine_parts = sine_of_remainder(r, angle);
    Double cosine_parts = cosine_of_remainder(r, angle);
    Double sine = fast_two_sum(sine_parts.high, sine_parts.low);
    Double cosine = fast_two_sum(cosine_parts.high, cosine_parts.low);
    bool odd = (r.quadrant & 1u) != 0u;
    Double over = Double(odd ? cosine.high : sine.high, odd ? cosine.low : sine.low);
    Double under = Double(odd ? sine.high : cosine.high, odd ? sine.low : cosine.low);
    Double tangent = quick_quotient(over, under);
    precise float value = tangent.high + tangent.low;
    uint bits = floatBitsToUint(value) ^ (r.quadrant << 31) ^ (x & SIGN_F32);
    bits = int(magnitude) < SMALL_ANGLE ? without_denormal(x) : bits;
    return int(magnitude) >= int(INFINITY_F32) ? NAN_F32 : bits;
}

FLOAT16_FORM_1(sin)
FLOAT16_FORM_1(cos)
FLOAT16_FORM_1(tan)

#endif
