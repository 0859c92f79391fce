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
    float high, part, small;
    int exponent_bits;
};

// For 0 <= x <= 177. The relative error of e^-x - 1 is 2^-25.19 where high - 2^count is exact. 22 operations. (The minimax polynomial was made
// by Lawson's weighted iteration: C. L. Lawson, 1961.)
SplitDecay split_decay(float x) {
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
Double power_less_one(SplitDecay e) {
    precise float one = intBitsToFloat(e.exponent_bits + int(ONE_F32));
    precise float difference = e.high - one;
    precise float head = leading_half(difference + (e.small - e.part));
    precise float rest = ((difference - head) - e.part) + e.small;
    return Double(head, rest);
}

// e^-x for x from 0 to EXPONENTIAL_IS_LOST, above it 0, in one word: what -1 is from e^-x - 1 far from zero. Not for speed.
float far_power(float x, SplitDecay e) {
    precise float power = (e.high + (e.small - e.part)) * power_of_two(-min(max(e.exponent_bits >> 23, 0), 60));
    return floatBitsToInt(x) > EXPONENTIAL_IS_LOST ? 0.0 : power;
}

// factor * 2^exponent * (e^-|x| - 1) for any x that is not NaN, by the parts of that power. Not for speed.
uint any_scaled_complement(Double factor, int exponent, SplitDecay e, uint x) {
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
uint exponential_linear_of_one(uint x) {
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
// it; found by search over all magnitudes: 0.934 ULP; 0.94 at most, as 2^-25.19 is the largest of all x. 40 operations, beside those on alpha alone; special is
// alpha where that is 1 (special_attribute.glsl).
uint elu_f32(uint x, uint alpha, uint special) {
    if (special == ONE_F32) { return exponential_linear_of_one(x); }
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
uint elu_f16(uint x, uint alpha, uint special) {
    return float16_from_float32(elu_f32(float32_from_float16(x), alpha, special));
}

// scaled_elu_f32 for operands that are neither small nor large, by the parts of e^-|x|.
uint central_scaled_elu(uint x, uint alpha, uint gamma, SplitDecay e, out bool needs_slow_path) {
    uint magnitude = x & MAGNITUDE_F32;
    Double value = power_less_one(e);
    precise float outer = uintBitsToFloat(gamma);
    precise float factor = outer * uintBitsToFloat(alpha);
    precise float factor_rest = rest_of_product(outer, uintBitsToFloat(alpha), factor);
    float below = rounded_short_product(value, shortened(Double(factor, factor_rest)));
    precise float above = outer * uintBitsToFloat(x);
    needs_slow_path = is_outside(magnitude, EXPONENTIAL_BEGIN, EXPONENTIAL_END, is_near_one(alpha) && is_near_one(gamma));
    return int(x) < 0 ? uint(floatBitsToInt(below) - e.exponent_bits) : floatBitsToUint(above);
}

// gamma * x if x >= 0, else gamma * alpha * (e^x - 1). Largest error over all 2^32 inputs for the usual attributes (1.67326319 and
// 1.05070102): 0.8853 ULP, at -0.313409358 (0xbea07731); where their product is 1, that of ELU. 42 operations, beside those on
// attributes alone.
uint scaled_elu_f32(uint x, uint alpha, uint gamma) {
    SplitDecay e = split_decay(uintBitsToFloat(x & MAGNITUDE_F32));
    bool needs_slow_path;
    uint result = central_scaled_elu(x, alpha, gamma, e, needs_slow_path);
    if (needs_slow_path) {
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
// The same for operands that are neither small nor large, and for zeros (FAST_PATH_OPERATION, elementwise_contiguous.glsl).
uint ordinary_scaled_elu_f32(uint x, uint alpha, uint gamma, out bool needs_slow_path) {
    uint magnitude = x & MAGNITUDE_F32;
    uint result = central_scaled_elu(x, alpha, gamma, split_decay(uintBitsToFloat(magnitude)), needs_slow_path);
    bool is_zero = magnitude == 0u && is_near_one(alpha) && is_near_one(gamma);
    needs_slow_path = needs_slow_path && !is_zero;
    return is_zero ? x ^ (gamma & SIGN_F32) : result;
}
uint scaled_elu_f16(uint x, uint alpha, uint gamma) {
    return float16_from_float32(scaled_elu_f32(float32_from_float16(x), alpha, gamma));
}

#endif
