// The logistic function 1 / (1 + e^-x), and what is a product of it.
#ifndef SIGMOID_GLSL
#define SIGMOID_GLSL

#include "exponential.glsl"
#include "significand.glsl"

// 1 / (1 + p) = high * (1 + low) for p = (power.high + power.low) * 2^exponent from 0 to 1; high and power.high have at most
// 12 bits. -2^-11 < low < 2^-10; the relative error is that of p / (1 + p), and 2^-29. 21 operations.
Double logistic(Double power, int exponent)
{
    float scale = power_of_two(max(exponent, -60));
    precise float p_high = scale * power.high;
    precise float p_low = scale * power.low;

    // A minimax polynomial within 2^-11.7 (relative), cut to 12 bits.
    precise float p = p_high + p_low;
    precise float inverse = 0.152222022 * p - 0.532815992;
    inverse = inverse * p + 0.865870178;
    inverse = inverse * p - 0.984830737;
    inverse = inverse * p + 0.999702513;
    inverse = leading_half(inverse);
    // d = 1 - inverse * (1 + p), where the product of the two numbers of 12 bits is exact. 1 / (1 - d) = 1 + d + d^2 + …
    precise float d = ((1.0 - inverse) - inverse * p_high) - inverse * p_low;
    precise float correction = d + d * d;
    return Double(inverse, correction);
}

// 1 / (1 + e^-t) * 2^-exponent, from e^-|t|: for a negative t it is e^t / (1 + e^t). |low| < |high| / 8. 29 operations.
Double sigmoid_of(Double power, int power_exponent, bool is_negative, out int exponent)
{
    Double inverse = logistic(power, power_exponent);
    float factor_high = is_negative ? power.high : 1.0;
    float factor_low = is_negative ? power.low : 0.0;
    exponent = is_negative ? power_exponent : 0;
    precise float high = factor_high * inverse.high; // exact
    precise float low = factor_low * inverse.high;
    low = low + (high + low) * inverse.low;
    return Double(high, low);
}

// 1 / (1 + e^-x). Largest error: 0.710 ULP, at -5.19786882 (0xc0a654f1); 0.539 ULP for positive x. 49 float and 19 integer
// operations.
uint sigmoid_f32(uint x)
{
    int magnitude = int(x & MAGNITUDE_F32);
    bool is_negative = int(x) < 0;
    float bounded = uintBitsToFloat(uint(min(magnitude, 0x42b00000)) | SIGN_F32); // not below -88
    int power_exponent;
    Double power = quick_exponential(bounded, power_exponent);
    int exponent;
    Double value = sigmoid_of(power, power_exponent, is_negative, exponent);
    precise float sum = value.high + value.low;
    uint result = floatBitsToUint(sum) + (uint(exponent) << 23);
    result = is_negative && int(x) > int(LOWEST_EXPONENT) ? 0u : result;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : result;
}
FLOAT16_FORM_1(sigmoid)

// |a * b|, but at least 2^-40, and at most about `largest`, which is below 256, given by its bits. 24 operations.
Double bounded_product(Scaled a, Scaled b, int largest)
{
    Double unrounded = short_product(shortened(a.significand), shortened(b.significand));
    Double product = fast_two_sum(unrounded.high, unrounded.low);
    float scale = power_of_two(min(max(a.exponent + b.exponent, -40), 8));
    precise float high = scale * product.high;
    precise float low = scale * product.low;
    uint sign = floatBitsToUint(high) & SIGN_F32;
    int bounded = min(int(floatBitsToUint(high) ^ sign), largest);
    return Double(intBitsToFloat(bounded), uintBitsToFloat(floatBitsToUint(low) ^ sign));
}

#define LARGEST_SWISH 0x43310000 // 177

// x * sigmoid(scale * x). Largest error among 50 million random pairs: 0.582 ULP. 79 float and 51 integer operations.
uint swish_f32(uint x, uint sigmoid_input_scale)
{
    Scaled number = scaled(x);
    Double t = bounded_product(scaled(sigmoid_input_scale), number, LARGEST_SWISH);
    bool is_negative = int(x ^ sigmoid_input_scale) < 0;
    int power_exponent;
    Double power = shortened(exponential(Double(-t.high, -t.low), power_exponent));
    int exponent;
    Double value = sigmoid_of(power, power_exponent, is_negative, exponent);
    uint result = rounded_product(shortened(number.significand), value, number.exponent + exponent);
    // e^-177 times the largest number is below 2^-126; and the limit for an infinite x is zero too.
    result = is_negative && floatBitsToInt(t.high) >= LARGEST_SWISH ? x & SIGN_F32 : result;
    return has_product(x, sigmoid_input_scale) ? result : NAN_F32;
}
uint swish_f16(uint x, uint sigmoid_input_scale)
{
    return float16_from_float32(swish_f32(float32_from_float16(x), sigmoid_input_scale));
}

#endif
