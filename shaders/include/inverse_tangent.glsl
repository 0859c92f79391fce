// The inverse tangent of one argument: a square in each of many intervals.
#ifndef INVERSE_TANGENT_GLSL
#define INVERSE_TANGENT_GLSL

#include "coefficients.glsl"
#include "float16.glsl"
#include "float32.glsl"
#include "quick_division.glsl"

// Rows for 2^-7 <= x < 2^13: 128 from a power of two to the next, so that 16 bits of x tell them apart.
#define ATAN_FIRST 0x3c000000u
#define ATAN_END 0x46000000u

// atan(a) where a has no row: a - a^3 / 3 near zero, pi/2 - 1 / a far away.
float atan_without_row(float a) {
    float value;
    if (floatBitsToUint(a) < ATAN_FIRST) {
        precise float near_zero = a - (a * (a * a)) * 0.333333343;
        value = floatBitsToUint(a) < SMALLEST_NORMAL_F32 ? 0.0 : near_zero;
    } else {
        float number = uintBitsToFloat(min(floatBitsToUint(a), 0x4e800000u)); // 2^30: from here on 1 / a is nothing beside pi/2
        precise float sum = 1.57079637 + (-4.37113883e-08 - quick_inverse(number));
        value = sum;
    }
    return value;
}

// atan x. Odd; of infinities pi/2 of their sign. Largest error over all 2^32 inputs: 0.5307 ULP, at 2.011259 (0x4000b878).
// 6 float and 6 integer operations for 2^-7 <= |x| < 2^13.
uint atan_f32(uint x) {
    uint magnitude = x & MAGNITUDE_F32;
    precise float a = uintBitsToFloat(magnitude);
    float value = value_by_leading_bits(a, ATAN_ROWS, ATAN_FIRST >> 16, (ATAN_END >> 16) - 1u);
    uint result = floatBitsToUint(value) | (x & SIGN_F32);
    if (magnitude - ATAN_FIRST >= ATAN_END - ATAN_FIRST) {
        uint bits = floatBitsToUint(atan_without_row(a)) | (x & SIGN_F32);
        result = magnitude > INFINITY_F32 ? NAN_F32 : bits;
    }
    return result;
}
FLOAT16_FORM_1(atan)

#endif
