// Units that are linear on one side of zero and exponential on the other: products with e^x - 1, rounded once. Attributes are
// FLOAT32 bits for every data type.
#ifndef EXPONENTIAL_LINEAR_GLSL
#define EXPONENTIAL_LINEAR_GLSL

#include "comparison.glsl"
#include "exponential.glsl"
#include "significand.glsl"

// Whether a number is below zero: a denormal counts as zero.
bool is_below_zero(uint x) { return int(x) < 0 && int(x & MAGNITUDE_F32) >= int(SMALLEST_NORMAL_F32); }

// (e^x - 1) * 2^40 for x < 0, so that products with it are no denormals. What lies below 2^-126 in x^2 never decides a bit.
#define ENLARGED 40
Double enlarged_exponential_less_one(uint x)
{
    uint bounded = uint(min(int(x & MAGNITUDE_F32), 0x42200000)) | SIGN_F32; // not below -40, where the result is -1
    Double value = negative_exponential_less_one(Double(uintBitsToFloat(bounded), 0.0));
    precise float high = value.high * power_of_two(ENLARGED);
    precise float low = value.low * power_of_two(ENLARGED);
    return Double(high, low);
}

// x if x >= 0, else alpha * (e^x - 1). Largest error: 0.543 ULP where alpha is 1, at -0.281563193 (0xbe90290d); 0.576 ULP
// among 50 million random pairs. 50 float and 28 integer operations.
uint elu_f32(uint x, uint alpha)
{
    Scaled factor = scaled(alpha);
    Double value = enlarged_exponential_less_one(x);
    uint result = rounded_product(shortened(factor.significand), value, factor.exponent - ENLARGED);
    result = is_nan_f32(alpha) ? NAN_F32 : result;
    result = is_below_zero(x) ? result : without_denormal(x);
    return is_nan_f32(x) ? NAN_F32 : result;
}
uint elu_f16(uint x, uint alpha) { return float16_from_float32(elu_f32(float32_from_float16(x), alpha)); }

// gamma * x if x >= 0, else gamma * alpha * (e^x - 1). Largest error among 50 million random triples: 0.567 ULP. 52
// float and 47 integer operations.
uint scaled_elu_f32(uint x, uint alpha, uint gamma)
{
    Scaled number = scaled(x);
    Scaled inner = scaled(alpha);
    Scaled outer = scaled(gamma);
    Double factor = two_product(outer.significand, inner.significand);
    Double value = enlarged_exponential_less_one(x);
    int exponent = outer.exponent + inner.exponent - ENLARGED;

    bool is_exponential = is_below_zero(x);
    factor.high = is_exponential ? factor.high : outer.significand;
    factor.low = is_exponential ? factor.low : 0.0;
    value.high = is_exponential ? value.high : number.significand;
    value.low = is_exponential ? value.low : 0.0;
    exponent = is_exponential ? exponent : outer.exponent + number.exponent;
    uint result = rounded_product(shortened(factor), value, exponent);
    bool is_number = has_product(gamma, is_exponential ? alpha : x);
    return is_number && !is_nan_f32(x) ? result : NAN_F32;
}
uint scaled_elu_f16(uint x, uint alpha, uint gamma)
{
    return float16_from_float32(scaled_elu_f32(float32_from_float16(x), alpha, gamma));
}

// max(0, x) + min(0, alpha * (e^(x / alpha) - 1)). Largest error among 50 million random pairs: 0.617 ULP. 64
// float and 56 integer operations.
uint celu_f32(uint x, uint alpha)
{
    Scaled number = scaled(x);
    Scaled factor = scaled(alpha);
    Double inverse = shortened(quotient(1.0, factor.significand));
    Double unrounded = short_product(inverse, shortened(number.significand));
    Double ratio = fast_two_sum(unrounded.high, unrounded.low);
    int ratio_exponent = number.exponent - factor.exponent;
    float scale = power_of_two(min(max(ratio_exponent, -40), 9));
    precise float high = scale * ratio.high;
    precise float low = scale * ratio.low;
    uint sign = floatBitsToUint(high) & SIGN_F32;
    uint bounded = uint(min(int(floatBitsToUint(high) ^ sign), 0x43310000)) | sign; // 177 in magnitude
    int exponent;
    Double value = exponential_less_one(Double(uintBitsToFloat(bounded), low), exponent);
    uint result = rounded_product(shortened(factor.significand), value, factor.exponent + exponent);
    // Alpha * (e^(x / Alpha) - 1) is x where x / Alpha is small.
    result = is_below_zero(x) && ratio_exponent >= -30 ? result : without_denormal(x);
    return no_nan_f32(x, alpha) ? result : NAN_F32;
}
uint celu_f16(uint x, uint alpha) { return float16_from_float32(celu_f32(float32_from_float16(x), alpha)); }

#endif
