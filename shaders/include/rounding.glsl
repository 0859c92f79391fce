// Rounding of floats to integers: exact, the same on every device, denormals as the numbers they are. The sign of x is kept,
// also by a zero; NaN gives the canonical NaN.
//
// Added to a number below 2^23, 2^23 leaves the nearest integer, ties to even; the other directions are a step from there.
// Which number is the larger one is seen from the bits.
#ifndef ROUNDING_GLSL
#define ROUNDING_GLSL

#include "comparison.glsl"

#define HALVES_TO_NEAREST_EVEN 0u
#define TOWARD_ZERO 1u
#define HALVES_AWAY_FROM_ZERO 2u
#define TOWARD_MINUS_INFINITY 3u

// The magnitude of a float32 below 2^23 rounded to an integer: the bits of that. TOWARD_MINUS_INFINITY rounds the number of the
// sign bit `sign`, which need not be that of x: ceil(x) is -floor(-x). 5 to 9 operations.
int rounded_magnitude(int magnitude, uint sign, uint mode) {
    precise float number = intBitsToFloat(magnitude);
    precise float nearest = (number + 8388608.0) - 8388608.0;
    int excess = floatBitsToInt(nearest) - magnitude;
    int result = floatBitsToInt(nearest);
    if (mode == TOWARD_MINUS_INFINITY) {
        // Away from zero for a negative number that was rounded toward zero, toward zero for a positive one rounded away.
        precise float other = nearest + uintBitsToFloat(sign ^ 0xbf800000u); // -1 or 1
        int negative = int(sign) >> 31;
        result = (excess ^ negative) - negative > 0 ? floatBitsToInt(other) : result;
    } else if (mode != HALVES_TO_NEAREST_EVEN) {
        precise float below = nearest - 1.0;
        precise float whole = excess > 0 ? below : nearest;
        precise float above = whole + 1.0;
        precise float rest = number - whole;
        bool is_up = mode == HALVES_AWAY_FROM_ZERO && floatBitsToInt(rest) >= 0x3f000000; // 1/2
        result = floatBitsToInt(is_up ? above : whole);
    }
    return result;
}

uint rounded_with_sign_f32(uint x, uint sign, uint mode) {
    int magnitude = int(x & 0x7fffffffu);
    int rounded = rounded_magnitude(magnitude, sign, mode);
    rounded = magnitude < 0x4b000000 ? rounded : magnitude; // from 2^23 on all are integers
    return magnitude > 0x7f800000 ? 0x7fc00000u : (x & 0x80000000u) | uint(rounded);
}

// As float32, where infinity and NaN become numbers from 2^16 on, which are integers and stay; a denormal becomes some
// number below 2^-14 instead, which is as good.
uint rounded_with_sign_f16(uint x, uint sign, uint mode) {
    int magnitude = int(x & 0x7fffu);
    int rounded = rounded_magnitude((magnitude << 13) + 0x38000000, sign, mode);
    uint number = uint(max(rounded - 0x38000000, 0) >> 13);
    number = magnitude == 0 ? 0u : number;
    return magnitude > 0x7c00 ? 0x7e00u : (x & 0x8000u) | number;
}

// The same in fewer instructions where the device's own conversions are exact, for x that is not NaN (nan_bits_f16).
uint quick_rounded_with_sign_f16(uint x, uint sign, uint mode) {
    int magnitude = int(float32_from_float16(x) & 0x7fffffffu);
    return float16_from_number(uint(rounded_magnitude(magnitude, sign, mode))) | (x & 0x8000u);
}

uint rounded_f32(uint x, uint mode) { return rounded_with_sign_f32(x, x & 0x80000000u, mode); }
uint rounded_f16(uint x, uint mode) { return rounded_with_sign_f16(x, (x & 0x8000u) << 16, mode); }

uint quick_rounded_f16(uint x, uint mode) { return quick_rounded_with_sign_f16(x, (x & 0x8000u) << 16, mode); }

uint ceiling_f32(uint x) { return rounded_with_sign_f32(x, ~x & 0x80000000u, TOWARD_MINUS_INFINITY); }
uint ceiling_f16(uint x) { return rounded_with_sign_f16(x, (~x & 0x8000u) << 16, TOWARD_MINUS_INFINITY); }
uint quick_ceiling_f16(uint x) { return quick_rounded_with_sign_f16(x, (~x & 0x8000u) << 16, TOWARD_MINUS_INFINITY); }

#endif
