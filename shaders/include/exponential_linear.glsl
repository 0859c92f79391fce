// Units that are linear on one side of zero and exponential on the other: products with e^x - 1, rounded once. Attributes are
// FLOAT32 bits for every data type.
#ifndef EXPONENTIAL_LINEAR_GLSL
#define EXPONENTIAL_LINEAR_GLSL

#include "arithmetic.glsl"
#include "comparison.glsl"
#include "exponential.glsl"
#include "short_product.glsl"
#include "significand.glsl"

// Whether a number is below zero: a denormal counts as zero.
bool is_below_zero(uint x) { return int(x) < 0 && int(x & MAGNITUDE_F32) >= int(SMALLEST_NORMAL_F32); }

// 1 - e^-x = (head + rest) / 2^count, head being of 12 bits and rest below 2^-10 of it; exponent_bits is count * 2^23.
struct Complement {
    float head;
    float rest;
    int exponent_bits;
};

// From the parts of e^-x for 2^-8 <= x <= 40, or where `of_both_signs` down to -177 as well. Relative error: 2^-27. 39
// operations with those parts.
Complement complement_of_parts(Exponential e, bool of_both_signs)
{
    int exponent_bits = -(e.exponent << 23);
    int bounded = of_both_signs ? max(exponent_bits, -(60 << 23)) : exponent_bits;
    precise float one = intBitsToFloat(bounded + int(ONE_F32));
    precise float power = (1.0 + e.a) + e.half_square;
    precise float difference = one - power;
    precise float power_part = one - difference;
    precise float error = power_part - power;
    if (of_both_signs) {
        precise float one_part = difference + power_part;
        precise float one_error = one - one_part;
        error = one_error + error;
    }
    precise float low = error - (e.b + e.rest);
    precise float head = leading_half(difference + low);
    precise float rest = (difference - head) + low;
    return Complement(head, rest, exponent_bits);
}
Complement complement_of_exponential(float x) { return complement_of_parts(exponential_parts(Double(-x, 0.0)), false); }
Complement complement_of_any_exponential(Double x)
{
    return complement_of_parts(exponential_parts(Double(-x.high, -x.low)), true);
}

// What follows from 1 - e^-x = x * (1 - x/2 + x^2/6 - …) for |x| < 2^-8: the words of that in place of `number`, which is x
// times some factor.
Double complement_near_zero(float x, float number)
{
    precise float lack = x * (0.5 - x * 0.166666667);
    precise float head = leading_half(number);
    precise float rest = (number - head) - number * lack;
    return Double(head, rest);
}

// Where complement_of_exponential holds.
#define COMPLEMENT_BEGIN 0x3b800000 // 2^-8
#define COMPLEMENT_END 0x42200000 // 40
bool has_complement(int magnitude) { return magnitude >= COMPLEMENT_BEGIN && magnitude <= COMPLEMENT_END; }

// factor * 2^exponent * (1 - e^-|x|) for any x that is not NaN, by its value where that is ordinary. Not for speed.
uint scaled_complement(Double factor, int exponent, Complement value, uint x)
{
    int magnitude = int(x & MAGNITUDE_F32);
    Scaled number = scaled(uint(magnitude));
    Double small = complement_near_zero(intBitsToFloat(min(magnitude, COMPLEMENT_BEGIN)), number.significand);
    bool is_small = magnitude < COMPLEMENT_BEGIN;
    bool is_one = magnitude > COMPLEMENT_END;
    float head = is_small ? small.high : is_one ? 1.0 : value.head;
    float rest = is_small ? small.low : is_one ? 0.0 : value.rest;
    Double product = short_product(factor, Double(head, rest));
    precise float sum = product.high + product.low;
    return scaled_bits(sum, exponent + (is_small ? number.exponent : is_one ? 0 : -(value.exponent_bits >> 23)));
}

// x if x >= 0, else e^x - 1. Largest error over all 2^32 inputs: 0.5430 ULP, at -0.00390369119 (0xbb7fd512). 52 operations.
uint exponential_linear_of_one(uint x)
{
    int magnitude = int(x & MAGNITUDE_F32);
    Complement value = complement_of_exponential(intBitsToFloat(magnitude));
    precise float sum = value.head + value.rest;
    uint below = uint(floatBitsToInt(sum) - value.exponent_bits) ^ SIGN_F32;
    if (!has_complement(magnitude)) {
        precise float number = intBitsToFloat(min(magnitude, COMPLEMENT_BEGIN));
        precise float near_zero = number - number * (number * (0.5 - number * 0.166666667));
        below = (magnitude > COMPLEMENT_END ? ONE_F32 : floatBitsToUint(near_zero)) ^ SIGN_F32;
        below = is_below_zero(x) ? below : without_denormal(x);
        return is_nan_f32(x) ? NAN_F32 : below;
    }
    return int(x) < 0 ? below : x;
}

// x if x >= 0, else alpha * (e^x - 1). Largest error found: 0.558 ULP, among 30 million random pairs. 55 operations; special is
// alpha where that is 1 (special_attribute.glsl).
uint elu_f32(uint x, uint alpha, uint special)
{
    if (special == ONE_F32) {
        return exponential_linear_of_one(x);
    }
    int magnitude = int(x & MAGNITUDE_F32);
    Complement value = complement_of_exponential(intBitsToFloat(magnitude));
    precise float product = times_short(uintBitsToFloat(alpha), value.head, value.rest);
    uint result = uint(floatBitsToInt(product) - value.exponent_bits) ^ SIGN_F32;
    bool is_ordinary = has_complement(magnitude) && is_moderate(alpha);
    if (!is_ordinary) {
        Scaled factor = scaled(alpha);
        result = scaled_complement(shortened(factor.significand), factor.exponent, value, x) ^ SIGN_F32;
        result = is_nan_f32(alpha) ? NAN_F32 : result;
        result = is_below_zero(x) ? result : without_denormal(x);
        return is_nan_f32(x) ? NAN_F32 : result;
    }
    return int(x) < 0 ? result : x;
}
uint elu_f16(uint x, uint alpha, uint special)
{
    return float16_from_float32(elu_f32(float32_from_float16(x), alpha, special));
}

// gamma * x if x >= 0, else gamma * alpha * (e^x - 1). Largest error found: 0.558 ULP, among 30 million random triples. 62
// operations.
uint scaled_elu_f32(uint x, uint alpha, uint gamma)
{
    int magnitude = int(x & MAGNITUDE_F32);
    Complement value = complement_of_exponential(intBitsToFloat(magnitude));
    precise float outer = uintBitsToFloat(gamma);
    precise float factor = outer * uintBitsToFloat(alpha);
    precise float factor_rest = rest_of_product(outer, uintBitsToFloat(alpha), factor);
    Double product = short_product(shortened(Double(factor, factor_rest)), Double(value.head, value.rest));
    precise float below = product.high + product.low;
    precise float above = outer * uintBitsToFloat(x);
    uint result = uint(floatBitsToInt(below) - value.exponent_bits) ^ SIGN_F32;
    bool is_ordinary = has_complement(magnitude) && is_moderate(alpha) && is_moderate(gamma)
        && is_moderate(floatBitsToUint(factor));
    if (!is_ordinary) {
        Scaled inner_parts = scaled(alpha);
        Scaled outer_parts = scaled(gamma);
        Double parts = shortened(two_product(outer_parts.significand, inner_parts.significand));
        result = scaled_complement(parts, outer_parts.exponent + inner_parts.exponent, value, x) ^ SIGN_F32;
        bool is_exponential = is_below_zero(x);
        result = is_exponential ? result : multiply_f32(gamma, x);
        bool is_number = has_product(gamma, is_exponential ? alpha : x);
        return is_number && !is_nan_f32(x) ? result : NAN_F32;
    }
    return int(x) < 0 ? result : floatBitsToUint(above);
}
uint scaled_elu_f16(uint x, uint alpha, uint gamma)
{
    return float16_from_float32(scaled_elu_f32(float32_from_float16(x), alpha, gamma));
}

// max(0, x) + min(0, alpha * (e^(x / alpha) - 1)). Largest error found: 0.598 ULP, among 30 million random pairs. 64
// operations where alpha is 1, and special therefore the same (special_attribute.glsl), 90 otherwise.
uint celu_f32(uint x, uint alpha, uint special)
{
    if (special == ONE_F32) {
        return exponential_linear_of_one(x);
    }
    int magnitude = int(x & MAGNITUDE_F32);
    Scaled factor = scaled(alpha);
    Double inverse = shortened(quotient(1.0, factor.significand));
    float scale = power_of_two(min(max(-factor.exponent, -60), 60));
    precise float inverse_high = inverse.high * scale;
    precise float inverse_low = inverse.low * scale;
    Double unrounded = short_product(Double(inverse_high, inverse_low), shortened(intBitsToFloat(magnitude)));
    precise float ratio = unrounded.high + unrounded.low;
    precise float ratio_rest = (unrounded.high - ratio) + unrounded.low;
    bool is_ordinary = floatBitsToInt(ratio) >= COMPLEMENT_BEGIN && floatBitsToInt(ratio) <= COMPLEMENT_END && is_moderate(x)
        && is_moderate(alpha);
    if (!is_ordinary) {
        Double parts = short_product(inverse, shortened(scaled(uint(magnitude)).significand));
        float ratio_scale = power_of_two(min(max(scaled(x).exponent - factor.exponent, -40), 9));
        precise float total = (parts.high + parts.low) * ratio_scale;
        precise float total_rest = parts.high * ratio_scale - total + parts.low * ratio_scale;
        bool is_large = int(floatBitsToUint(total) & MAGNITUDE_F32) > 0x43310000; // 177
        ratio = is_large ? uintBitsToFloat((floatBitsToUint(total) & SIGN_F32) | 0x43310000u) : total;
        ratio_rest = is_large ? 0.0 : total_rest;
    }
    Complement value = complement_of_any_exponential(Double(ratio, ratio_rest));
    precise float product = times_short(uintBitsToFloat(alpha), value.head, value.rest);
    uint result = uint(floatBitsToInt(product) - value.exponent_bits) ^ SIGN_F32;
    if (!is_ordinary) {
        // Near zero alpha * (e^(x / alpha) - 1) is x less a part of it.
        Scaled number = scaled(x);
        int ratio_magnitude = int(floatBitsToUint(ratio) & MAGNITUDE_F32);
        bool is_small = ratio_magnitude < COMPLEMENT_BEGIN;
        bool is_one = floatBitsToInt(ratio) > COMPLEMENT_END;
        Double small = complement_near_zero(is_small ? ratio : 0.0, -number.significand);
        float head = is_small ? small.high : is_one ? 1.0 : value.head;
        float rest = is_small ? small.low : is_one ? 0.0 : value.rest;
        Double outer = shortened(is_small ? 1.0 : factor.significand);
        int exponent = is_small ? number.exponent : factor.exponent - (is_one ? 0 : value.exponent_bits >> 23);
        Double rounded = short_product(outer, Double(head, rest));
        precise float sum = rounded.high + rounded.low;
        result = is_below_zero(x) ? scaled_bits(sum, exponent) ^ SIGN_F32 : without_denormal(x);
        return no_nan_f32(x, alpha) ? result : NAN_F32;
    }
    return int(x) < 0 ? result : x;
}
uint celu_f16(uint x, uint alpha, uint special)
{
    return float16_from_float32(celu_f32(float32_from_float16(x), alpha, special));
}

#endif
