// Sums, differences, products and means of floats, correctly rounded. FLOAT32 denormals count as zeros of their sign, in
// operands and in results; FLOAT16 denormals are the numbers they are.
#ifndef ARITHMETIC_GLSL
#define ARITHMETIC_GLSL

#include "float16.glsl"
#include "float32.glsl"

// The value of a float16, exactly.
float as_float16(uint x) { return uintBitsToFloat(float32_from_float16(x)); }

// Rounded from float32. That sums, differences and products of float16 values were rounded to 24 bits before does no harm:
// see float16.glsl.
uint as_float16_result(float value) { return float16_from_float32(floatBitsToUint(value)); }

// a + b. A sum below 2^-126 is exact, so that it does not matter how a device treats denormal results. 13 operations.
uint add_f32(uint a, uint b)
{
    precise float total = as_float32(a) + as_float32(b);
    return as_result(total);
}
uint add_f16(uint a, uint b)
{
    precise float total = as_float16(a) + as_float16(b);
    return as_float16_result(total);
}

// a - b. 13 operations.
uint subtract_f32(uint a, uint b)
{
    precise float difference = as_float32(a) - as_float32(b);
    return as_result(difference);
}
uint subtract_f16(uint a, uint b)
{
    precise float difference = as_float16(a) - as_float16(b);
    return as_float16_result(difference);
}

// a * b. 21 operations.
//
// A product that is 2^-126 after rounding to 24 bits, though it was less before, is 2^-126, 0 or a denormal on devices
// that round and flush in this order or that, or keep denormals. So a computed product that is not above 2^-126 is decided
// by another one, 2^96 times as large: either its magnitude is 2^-30 to the bit, or the result is zero. (It may be NaN
// where zero meets a large number.)
uint multiply_f32(uint a, uint b)
{
    float x = as_float32(a);
    float y = as_float32(b);
    precise float product = x * y;
    precise float scaled_x = x * 281474976710656.0; // 2^48
    precise float scaled_y = y * 281474976710656.0;
    precise float scaled_product = scaled_x * scaled_y;
    uint bits = floatBitsToUint(product);
    int magnitude = int(bits & MAGNITUDE_F32);
    bool is_smallest = (floatBitsToUint(scaled_product) & MAGNITUDE_F32) == 0x30800000u;
    uint tiny = ((a ^ b) & SIGN_F32) | (is_smallest ? SMALLEST_NORMAL_F32 : 0u);
    uint number = magnitude <= int(SMALLEST_NORMAL_F32) ? tiny : bits;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : number;
}
// Exact in float32, and never below 2^-48.
uint multiply_f16(uint a, uint b)
{
    precise float product = as_float16(a) * as_float16(b);
    return as_float16_result(product);
}

#endif
