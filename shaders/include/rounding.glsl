// Rounding of floats to integers, on their bits: exact, the same on every device, denormals as the numbers they are.
// Every function takes the bits of x without NaN; the sign of x is kept, also by a zero.
#ifndef ROUNDING_GLSL
#define ROUNDING_GLSL

#include "comparison.glsl"

#define HALVES_TO_NEAREST_EVEN 0u
#define TOWARD_ZERO 1u
#define HALVES_AWAY_FROM_ZERO 2u
#define TOWARD_MINUS_INFINITY 3u

// For a float format with `fraction_bits` bits of fraction, whose exponent field of 2^0 is `bias`.
uint rounded_bits(uint x, uint mode, int fraction_bits, int bias)
{
    uint sign_bit = uint(bias * 2 + 2) << fraction_bits;
    uint sign = x & sign_bit;
    uint magnitude = x ^ sign;
    int exponent = int(magnitude >> fraction_bits) - bias;
    if (exponent >= fraction_bits) {
        return x; // an integer already, or infinite
    }
    // Below 1 the fraction is all of the number: compare it with 1/2, and go to 0 or 1.
    uint one = uint(bias) << fraction_bits;
    uint unit = exponent < 0 ? one : 1u << uint(fraction_bits - exponent);
    uint whole = exponent < 0 ? 0u : magnitude & ~(unit - 1u);
    uint rest = magnitude - whole;
    uint half_unit = exponent < 0 ? one - (1u << fraction_bits) : unit >> 1;
    bool odd = exponent >= 0 && (magnitude & unit) != 0u;
    bool up;
    if (mode == HALVES_TO_NEAREST_EVEN) {
        up = rest > half_unit || (rest == half_unit && odd);
    } else if (mode == HALVES_AWAY_FROM_ZERO) {
        up = rest >= half_unit;
    } else {
        up = mode == TOWARD_MINUS_INFINITY && sign != 0u && rest != 0u;
    }
    return sign | (whole + (up ? unit : 0u));
}

uint rounded_f32(uint x, uint mode) { return is_nan_f32(x) ? 0x7fc00000u : rounded_bits(x, mode, 23, 127); }
uint rounded_f16(uint x, uint mode) { return is_nan_f16(x) ? 0x7e00u : rounded_bits(x, mode, 10, 15); }

// ceil(x) = -floor(-x); the canonical NaN must not get a sign by that.
uint ceiling_f32(uint x)
{
    return is_nan_f32(x) ? 0x7fc00000u : rounded_f32(x ^ 0x80000000u, TOWARD_MINUS_INFINITY) ^ 0x80000000u;
}
uint ceiling_f16(uint x)
{
    return is_nan_f16(x) ? 0x7e00u : rounded_f16(x ^ 0x8000u, TOWARD_MINUS_INFINITY) ^ 0x8000u;
}

#endif
