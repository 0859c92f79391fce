// The inverse hyperbolic sine: a square in each of many intervals.
#ifndef INVERSE_HYPERBOLIC_SINE_GLSL
#define INVERSE_HYPERBOLIC_SINE_GLSL

#include "coefficients.glsl"
#include "inverse_hyperbolic.glsl"

// Rows for 2^-7 <= x < 2^13: 128 from a power of two to the next, so that 16 bits of x tell them apart.
#define ASINH_FIRST 0x3c000000u
#define ASINH_END 0x46000000u

// asinh(a) near zero: a - a^3 / 6.
float small_asinh(float a) {
    precise float near_zero = a - (a * (a * a)) * 0.166666672;
    return floatBitsToUint(a) < SMALLEST_NORMAL_F32 ? 0.0 : near_zero;
}

// asinh(a) where a has no row: near zero, or ln(2 * a) far away.
float asinh_without_row(float a) {
    float value;
    if (floatBitsToUint(a) < ASINH_FIRST) {
        value = small_asinh(a);
    } else {
        value = logarithm_of_double(a);
    }
    return value;
}

// asinh x. Odd; infinities stay. Largest error over all 2^32 inputs: 0.5245 ULP, at 2.0270028 (0x4001ba6a).
// 6 float and 6 integer operations for 2^-7 <= |x| < 2^13.
uint asinh_f32(uint x) {
    uint magnitude = x & MAGNITUDE_F32;
    precise float a = uintBitsToFloat(magnitude);
    float value = value_by_leading_bits(a, ASINH_ROWS, ASINH_FIRST >> 16, (ASINH_END >> 16) - 1u);
    uint result = floatBitsToUint(value) | (x & SIGN_F32);
    if (magnitude - ASINH_FIRST >= ASINH_END - ASINH_FIRST) {
        uint bits = floatBitsToUint(asinh_without_row(a)) | (x & SIGN_F32);
        result = magnitude > INFINITY_F32 ? NAN_F32 : bits;
    }
    return result;
}
FLOAT16_FORM_1(asinh)

// The same but far away (FAST_PATH_OPERATION, elementwise_contiguous.glsl).
uint ordinary_asinh_f32(uint x, out bool needs_slow_path) {
    uint magnitude = x & MAGNITUDE_F32;
    precise float a = uintBitsToFloat(magnitude);
    float value = value_by_leading_bits(a, ASINH_ROWS, ASINH_FIRST >> 16, (ASINH_END >> 16) - 1u);
    value = magnitude < ASINH_FIRST ? small_asinh(a) : value;
    needs_slow_path = magnitude >= ASINH_END;
    return floatBitsToUint(value) | (x & SIGN_F32);
}

#endif
