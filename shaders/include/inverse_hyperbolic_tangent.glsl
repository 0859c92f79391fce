// The inverse hyperbolic tangent: a square in x, or above 1/2 in 1 - x, in each of many intervals.
#ifndef INVERSE_HYPERBOLIC_TANGENT_GLSL
#define INVERSE_HYPERBOLIC_TANGENT_GLSL

#include "coefficients.glsl"
#include "float16.glsl"
#include "float32.glsl"

// Rows for 2^-7 <= x < 1/2, and for 2^-24 <= 1 - x < 1/2: 128 from a power of two to the next, so that 16 bits tell them apart.
#define ATANH_FIRST 0x3c000000u
#define ATANH_FIRST_GAP 0x33800000u

// atanh x. Odd; of +-1 infinities, beyond NaN. 1 - x is exact from 1/2 on. Largest error over all 2^32 inputs: 0.5429 ULP, at
// 0.7495195 (0x3f3fe083). 6 float and 9 integer operations where 2^-7 <= |x| < 1.
uint atanh_f32(uint x) {
    uint magnitude = x & MAGNITUDE_F32;
    precise float a = uintBitsToFloat(magnitude);
    precise float gap = 1.0 - a;
    bool is_below_half = magnitude < 0x3f000000u;
    float argument = is_below_half ? a : gap;
    uint first = is_below_half ? ATANH_ROWS - (ATANH_FIRST >> 16) : ATANH_BELOW_ONE_ROWS - (ATANH_FIRST_GAP >> 16);
    uint number = min(max(first + (floatBitsToUint(argument) >> 16), ATANH_ROWS), SOFTPLUS_ROWS - 1u);
    vec4 row = coefficient_row(number);
    precise float value = row.y + beside_point(row, argument - row.x);
    uint result = floatBitsToUint(value) | (x & SIGN_F32);
    if (magnitude - ATANH_FIRST >= ONE_F32 - ATANH_FIRST) {
        precise float near_zero = a + (a * (a * a)) * 0.333333343;
        uint bits = magnitude < SMALLEST_NORMAL_F32 ? 0u : floatBitsToUint(near_zero);
        bits = magnitude == ONE_F32 ? INFINITY_F32 : bits;
        result = magnitude > ONE_F32 ? NAN_F32 : bits | (x & SIGN_F32);
    }
    return result;
}
FLOAT16_FORM_1(atanh)

#endif
