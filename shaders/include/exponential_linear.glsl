// Units that are linear on one side of zero and exponential on the other: products with e^x - 1, rounded once. Attributes are
// FLOAT32 bits for every data type.
#ifndef EXPONENTIAL_LINEAR_GLSL
#define EXPONENTIAL_LINEAR_GLSL

#include "arithmetic.glsl"
#include "comparison.glsl"
#include "exponential.glsl"
#include "ordinary.glsl"
#include "short_product.glsl"
#include "significand.glsl"

// Whether a number is below zero: a denormal counts as zero.
bool is_below_zero(uint x) { return int(x) < 0 && int(x & MAGNITUDE_F32) >= int(SMALLEST_NORMAL_F32); }

// e^-x * 2^count = high + small - part: high is a multiple of 2^-11 between 0.70 and 1.42, |part| <= 2^-12, |small| < 0.08. Where x is
// small, count is 0, and x is nearly 1 - high + part, to all its bits. exponent_bits is count * 2^23.
struct SplitDecay {
    float high;
    float part;
    float small;
    int exponent_bits;
};

// For 0 <= x <= 177. The relative error of e^-x - 1 is 2^-25.6 where high - 2^count is exact. 22 operations. (The minimax polynomial was made
// by Lawson's weighted iteration: C. L. Lawson, 1961.)
SplitDecay split_decay(float x)
{
    precise float shifted = x * 1.44269504 + 12582912.0;
    precise float count = shifted - 12582912.0;
    precise float head = exact_product_plus(count, -0.693145752, x);
    precise float tail = count * 1.42860677e-06;
    precise float a = (head + 6144.0) - 6144.0;
    precise float part = head - a;
    precise float r = head - tail;
    precise float quadratic = 0.00137020578 * r - 0.00836911518;
    quadratic = quadratic * r + 0.0416706912;
    quadratic = quadratic * r - 0.166665167;
    quadratic = quadratic * r + 0.499999821;
    precise float small = r * r * quadratic + tail;
    precise float high = 1.0 - a;
    return SplitDecay(high, part, small, floatBitsToInt(shifted) << 23);
}

// Where power_less_one holds, for numbers whose bits are x. Nearer to zero e^-x - 1 is -x, rounded.
#define EXPONENTIAL_BEGIN 0x30800000u // 2^-30
#define EXPONENTIAL_END 0x41140000u // 9.25
#define EXPONENTIAL_IS_LOST 0x42200000 // 40

// (e^-x - 1) * 2^count = high + low, high being of 12 bits. Up to EXPONENTIAL_END the first difference is exact. 8 operations.
Double power_less_one(SplitDecay e)
{
    precise float one = intBitsToFloat(e.exponent_bits + int(ONE_F32));
    precise float difference = e.high - one;
    precise float head = leading_half(difference + (e.small - e.part));
    precise float rest = ((difference - head) - e.part) + e.small;
    return Double(head, rest);
}

// e^-x for x from 0 to EXPONENTIAL_IS_LOST, above it 0, in one word: what -1 is from e^-x - 1 far from zero. Not for speed.
float far_power(float x, SplitDecay e)
{
    precise float power = (e.high + (e.small - e.part)) * power_of_two(-min(max(e.exponent_bits >> 23, 0), 60));
    return floatBitsToInt(x) > EXPONENTIAL_IS_LOST ? 0.0 : power;
}

// factor * 2^exponent * (e^-|x| - 1) for any x that is not NaN, by the parts of that power. Not for speed.
uint any_scaled_complement(Double factor, int exponent, SplitDecay e, uint x)
{
    uint magnitude = x & MAGNITUDE_F32;
    Scaled number = scaled(magnitude);
    Double small = shortened(-number.significand);
    Double ordinary = power_less_one(e);
    float far = far_power(uintBitsToFloat(magnitude), e);
    bool is_small = int(magnitude) < int(EXPONENTIAL_BEGIN);
    bool is_far = int(magnitude) >= int(EXPONENTIAL_END);
    float high = is_small ? small.high : is_far ? -1.0 : ordinary.high;
    float low = is_small ? small.low : is_far ? far : ordinary.low;
    float product = rounded_short_product(factor, Double(high, low));
    return scaled_bits(product, exponent + (is_small ? number.exponent : is_far ? 0 : -(e.exponent_bits >> 23)));
}

// x if x >= 0, else e^x - 1. Largest error over all 2^32 inputs: 0.9039 ULP, at -0.286404431 (0xbe92a39a). 33 operations.
uint exponential_linear_of_one(uint x)
{
    uint magnitude = x & MAGNITUDE_F32;
    SplitDecay e = split_decay(uintBitsToFloat(magnitude));
    precise float one = intBitsToFloat(e.exponent_bits + int(ONE_F32));
    precise float value = (e.high - one) + (e.small - e.part);
    uint result = int(x) < 0 ? uint(floatBitsToInt(value) - e.exponent_bits) : x;
    if (is_outside(magnitude, EXPONENTIAL_BEGIN, EXPONENTIAL_END, true)) {
        precise float far_below = far_power(uintBitsToFloat(magnitude), e) - 1.0;
        bool is_far_below = int(x) < 0 && int(magnitude) >= int(EXPONENTIAL_END);
        result = is_far_below ? floatBitsToUint(far_below) : without_denormal(x);
        result = is_nan_f32(x) ? NAN_F32 : result;
    }
    return result;
}

// x if x >= 0, else alpha * (e^x - 1). Largest error over all 2^32 inputs for an alpha of 1: 0.9039 ULP, as exponential_linear_of_one has
// it; for 1.25, 1/3 and others, and among 6 million random pairs, it is below. 40 operations, beside those on alpha alone; special is
// alpha where that is 1 (special_attribute.glsl).
uint elu_f32(uint x, uint alpha, uint special)
{
    if (special == ONE_F32) {
        return exponential_linear_of_one(x);
    }
    uint magnitude = x & MAGNITUDE_F32;
    SplitDecay e = split_decay(uintBitsToFloat(magnitude));
    Double value = power_less_one(e);
    float below = rounded_short_product(value, shortened(uintBitsToFloat(alpha)));
    uint result = int(x) < 0 ? uint(floatBitsToInt(below) - e.exponent_bits) : x;
    if (is_outside(magnitude, EXPONENTIAL_BEGIN, EXPONENTIAL_END, is_near_one(alpha))) {
        Scaled factor = scaled(alpha);
        result = any_scaled_complement(shortened(factor.significand), factor.exponent, e, x);
        result = is_nan_f32(alpha) ? NAN_F32 : result;
        result = is_below_zero(x) ? result : without_denormal(x);
        result = is_nan_f32(x) ? NAN_F32 : result;
    }
    return result;
}
uint elu_f16(uint x, uint alpha, uint special)
{
    return float16_from_float32(elu_f32(float32_from_float16(x), alpha, special));
}

// gamma * x if x >= 0, else gamma * alpha * (e^x - 1). Largest error over all 2^32 inputs for the usual attributes (1.67326319 and
// 1.05070102): 0.8853 ULP, at -0.313409358 (0xbea07731); where their product is 1, that of ELU. 42 operations, beside those on
// attributes alone.
uint scaled_elu_f32(uint x, uint alpha, uint gamma)
{
    uint magnitude = x & MAGNITUDE_F32;
    SplitDecay e = split_decay(uintBitsToFloat(magnitude));
    Double value = power_less_one(e);
    precise float outer = uintBitsToFloat(gamma);
    precise float factor = outer * uintBitsToFloat(alpha);
    precise float factor_rest = rest_of_product(outer, uintBitsToFloat(alpha), factor);
    float below = rounded_short_product(value, shortened(Double(factor, factor_rest)));
    precise float above = outer * uintBitsToFloat(x);
    uint result = int(x) < 0 ? uint(floatBitsToInt(below) - e.exponent_bits) : floatBitsToUint(above);
    bool is_possible = is_near_one(alpha) && is_near_one(gamma);
    if (is_outside(magnitude, EXPONENTIAL_BEGIN, EXPONENTIAL_END, is_possible)) {
        Scaled inner_parts = scaled(alpha);
        Scaled outer_parts = scaled(gamma);
        Double parts = shortened(two_product(outer_parts.significand, inner_parts.significand));
        result = any_scaled_complement(parts, outer_parts.exponent + inner_parts.exponent, e, x);
        bool is_exponential = is_below_zero(x);
        result = is_exponential ? result : multiply_f32(gamma, x);
        bool is_number = has_product(gamma, is_exponential ? alpha : x);
        result = is_number && !is_nan_f32(x) ? result : NAN_F32;
    }
    return result;
}
uint scaled_elu_f16(uint x, uint alpha, uint gamma)
{
    return float16_from_float32(scaled_elu_f32(float32_from_float16(x), alpha, gamma));
}

// 1 - e^-x = (head + rest) / 2^count, head being of 12 bits and rest below 2^-10 of it; exponent_bits is count * 2^23.
struct Complement {
    float head;
    float rest;
    int exponent_bits;
};

// From the parts of e^-x, for 2^-8 <= x <= 40, and for -177 <= x <= -2^-8. Relative error: 2^-27. 39 operations with those parts.
Complement complement_of_parts(Exponential e)
{
    int exponent_bits = -(e.exponent << 23);
    precise float one = intBitsToFloat(max(exponent_bits, -(60 << 23)) + int(ONE_F32));
    precise float difference = one - e.power;
    precise float power_part = one - difference;
    precise float one_part = difference + power_part;
    precise float error = (one - one_part) + (power_part - e.power);
    precise float low = error - (e.b + e.rest);
    precise float head = leading_half(difference + low);
    precise float rest = (difference - head) + low;
    return Complement(head, rest, exponent_bits);
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

// max(0, x) + min(0, alpha * (e^(x / alpha) - 1)). Largest error found: 0.598 ULP, among 30 million random pairs. 33
// operations where alpha is 1, and special therefore the same (special_attribute.glsl), 81 otherwise.
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
    Complement value = complement_of_parts(exponential_parts(Double(-ratio, -ratio_rest)));
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
        float product_of_parts = rounded_short_product(outer, Double(head, rest));
        result = is_below_zero(x) ? scaled_bits(product_of_parts, exponent) ^ SIGN_F32 : without_denormal(x);
        return no_nan_f32(x, alpha) ? result : NAN_F32;
    }
    return int(x) < 0 ? result : x;
}
uint celu_f16(uint x, uint alpha, uint special)
{
    return float16_from_float32(celu_f32(float32_from_float16(x), alpha, special));
}

#endif
