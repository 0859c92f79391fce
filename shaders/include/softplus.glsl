// ln(1 + e^(b * x)), times or divided by an attribute: without overflow, cancellation or a lost product.
//
// With t = |b * x|, ln(1 + e^(b * x)) is ln(1 + e^-t), plus t where b * x is above zero. The logarithm is a square in t in each of many
// intervals; with the factor before it, it is in two words, and so is t times the factor: so there is one rounding, at the
// end. Attributes are the same for all elements; what depends on them alone is computed once for several elements. Where b and the factor are
// neither large nor small they enter as they are, else by their significands, and x and the result are multiplied by what is left.
#ifndef SOFTPLUS_GLSL
#define SOFTPLUS_GLSL

#include "coefficients.glsl"
#include "exponential.glsl"
#include "quick_division.glsl"
#include "significand.glsl"

// Rows for 0 <= t < 20: 128 in an interval of length 1. Beyond, ln(1 + e^-t) is e^-t, and is lost beside t.
#define SOFTPLUS_POINTS 98304.0 // 1.5 * 2^16: what is added to it is rounded to a multiple of 2^-7
#define SOFTPLUS_FIRST_POINT 0x47c00000u // SOFTPLUS_POINTS
#define SOFTPLUS_ROWS_END 0x41a00000 // 20
#define SOFTPLUS_VANISHES 0x43310000 // 177: e^-177, times or divided by any finite number, is below 2^-126
#define LARGEST_SOFTPLUS_EXPONENT 8

// Whether products and quotients by it cannot leave the range: from 2^-30 to 2^30.
bool is_moderate_exponent(int exponent) { return exponent >= -30 && exponent <= 30; }

// Whether a t has no row, NaN of either sign among them, or attributes are not moderate.
bool is_beyond_softplus(float t, bool is_moderate) {
    uint end = is_moderate ? uint(SOFTPLUS_ROWS_END) : 0u;
    return floatBitsToUint(t) >= end;
}

// A moderate exponent as it is.
int moderate_exponent(int exponent) { return min(max(exponent, -30), 30); }

// Both words times a power of two.
Double times_power(Double number, float power) {
    precise float high = number.high * power;
    precise float low = number.low * power;
    return Double(high, low);
}

// |x| * 2^exponent for any exponent, or what gives the same result: at least 2^-60, and below 2^9.
float bounded_magnitude(uint x, int exponent) {
    Scaled number = scaled(x & MAGNITUDE_F32);
    int bounded = min(max(number.exponent + exponent, -60), LARGEST_SOFTPLUS_EXPONENT);
    precise float magnitude = number.significand * power_of_two(bounded);
    return magnitude;
}

// The row of a t below 20: of its interval, not of the nearest multiple of 2^-7.
vec4 softplus_row(float t) {
    precise float shifted = (t - 0.00390625) + SOFTPLUS_POINTS;
    uint number = min(floatBitsToUint(shifted) - SOFTPLUS_FIRST_POINT, TAN_ROWS - SOFTPLUS_ROWS - 1u);
    return coefficient_row(SOFTPLUS_ROWS + number);
}

// ln(1 + e^x) where |x| < 20 (FAST_PATH_OPERATION, elementwise_contiguous.glsl): with t = |x|, ln(1 + e^-t), plus x where that
// is above zero.
uint ordinary_softplus_of_one(uint x, out bool needs_slow_path) {
    int magnitude = int(x & MAGNITUDE_F32);
    precise float t = intBitsToFloat(magnitude);
    vec4 row = softplus_row(t);
    precise float base = intBitsToFloat(max(int(x), 0));
    Double sum = two_sum(base, row.y);
    precise float value = sum.high + (sum.low + beside_point(row, t - row.x));
    needs_slow_path = magnitude >= SOFTPLUS_ROWS_END;
    return floatBitsToUint(value);
}

// ln(1 + e^x). Largest error over all 2^32 inputs: 0.6352 ULP, at -27.376373 (0xc1db02d0). 14 float and 6 integer operations
// where |x| < 20.
uint softplus_of_one(uint x) {
    bool needs_slow_path;
    uint result = ordinary_softplus_of_one(x, needs_slow_path);
    if (needs_slow_path) {
        int magnitude = int(x & MAGNITUDE_F32);
        Decay e = decay(intBitsToFloat(min(magnitude, SOFTPLUS_VANISHES)));
        precise float far_below = e.power.high + e.power.low;
        result = int(x) >= 0 ? x : scaled_bits(far_below, -(e.exponent_bits >> 23)) & MAGNITUDE_F32;
        result = magnitude > int(INFINITY_F32) ? NAN_F32 : result;
    }
    return result;
}

// t = b * magnitude in two words, for a b whose first word has 12 bits. 10 operations.
Double softplus_argument(float magnitude, Double b) {
    float head = leading_half(magnitude);
    precise float rest = magnitude - head;
    precise float high = head * b.high;
    precise float low = head * b.low + rest * (b.high + b.low);
    return fast_two_sum(high, low);
}

// ln(1 + e^-t) * factor for t below 20, the first word of factor having 12 bits. The first word of the result is exact, but not
// nearly all of it. 20 operations.
Double softplus_logarithm(Double t, Double factor) {
    return short_product(value_of_row(softplus_row(t.high), t), factor);
}

// e^-t * factor.
Scaled softplus_far_below(Double t, Double factor) {
    Decay e = decay(Double(intBitsToFloat(min(floatBitsToInt(t.high), SOFTPLUS_VANISHES)), t.low));
    float product = rounded_short_product(factor, shortened(fast_two_sum(e.power.high, e.power.low)));
    return Scaled(product, -(e.exponent_bits >> 23));
}

// 1 / number in two words, the first one of 12 bits, as that of number is: within 2^-31, for numbers from 1 to 2.
Double softplus_inverse(Double number) {
    float inverse = quick_inverse(number.high + number.low);
    precise float head = leading_half(inverse);
    precise float rest = ((1.0 - head * number.high) - head * number.low) * inverse;
    return Double(head, rest);
}

// base + high + low, rounded once, where neither of the first two need be the larger one, and low is small.
float sum_of_softplus(float base, float high, float low) {
    Double sum = two_sum(base, high);
    precise float value = sum.high + (sum.low + low);
    return value;
}

// softplus_f32 for any operands, with exponents apart. Not for speed.
uint any_softplus(uint x, uint steepness, Scaled divisor, Double slope, Double factor) {
    bool is_rising = int(x ^ steepness) >= 0;
    float number = bounded_magnitude(x, divisor.exponent);
    Double t = softplus_argument(number, slope);
    Double logarithm = softplus_logarithm(t, factor);
    Scaled value = Scaled(sum_of_softplus(is_rising ? number : 0.0, logarithm.high, logarithm.low), 0);
    bool is_far = floatBitsToInt(t.high) >= SOFTPLUS_ROWS_END;
    if (is_far) { value = softplus_far_below(t, factor); }
    uint bits = scaled_bits(value.significand, value.exponent - divisor.exponent);
    bits = is_far && is_rising ? x & MAGNITUDE_F32 : bits;
    // 0 * infinity, and infinity by infinity.
    bool is_ratio_of_infinities = (steepness & MAGNITUDE_F32) == INFINITY_F32 && is_rising;
    bool is_number = has_product(x, steepness) && !is_ratio_of_infinities;
    return is_number ? bits | (steepness & SIGN_F32) : NAN_F32;
}

// softplus_f32 where the argument has a row, and the steepness is moderate.
uint moderate_softplus(uint x, uint steepness, Scaled divisor, Double slope, Double factor, out bool needs_slow_path) {
    precise float number = uintBitsToFloat(x & MAGNITUDE_F32);
    int exponent = moderate_exponent(divisor.exponent);
    Double t = softplus_argument(number, times_power(slope, power_of_two(exponent)));
    Double logarithm = softplus_logarithm(t, times_power(factor, power_of_two(-exponent)));
    float value = sum_of_softplus(int(x ^ steepness) >= 0 ? number : 0.0, logarithm.high, logarithm.low);
    needs_slow_path = is_beyond_softplus(t.high, is_moderate_exponent(divisor.exponent));
    return floatBitsToUint(value) | (steepness & SIGN_F32);
}

// The same for what is given (FAST_PATH_OPERATION, elementwise_contiguous.glsl).
uint ordinary_softplus_f32(uint x, uint steepness, uint special, out bool needs_slow_path) {
    if (special == ONE_F32) { return ordinary_softplus_of_one(x, needs_slow_path); }
    Scaled divisor = scaled(steepness & MAGNITUDE_F32);
    Double slope = shortened(divisor.significand);
    return moderate_softplus(x, steepness, divisor, slope, softplus_inverse(slope), needs_slow_path);
}

// ln(1 + e^(steepness * x)) / steepness, where t divided by the steepness is |x|. Zeros and infinities are taken as IEEE 754
// evaluates the formula. Largest error found by search over all magnitudes: 0.756 ULP, of e^-t for t above 60; from the roundings
// follows 0.91 at most. Of rows 0.625. About 42 operations, beside those on the
// steepness alone; softplus_of_one's where that is 1, and special therefore the same (special_attribute.glsl).
uint softplus_f32(uint x, uint steepness, uint special) {
    if (special == ONE_F32) { return softplus_of_one(x); }
    Scaled divisor = scaled(steepness & MAGNITUDE_F32);
    Double slope = shortened(divisor.significand);
    Double factor = softplus_inverse(slope);
    bool needs_slow_path;
    uint result = moderate_softplus(x, steepness, divisor, slope, factor, needs_slow_path);
    if (needs_slow_path) { result = any_softplus(x, steepness, divisor, slope, factor); }
    return result;
}
uint softplus_f16(uint x, uint steepness, uint special) {
    return float16_from_float32(softplus_f32(float32_from_float16(x), steepness, special));
}

// parametric_softplus_f32 for any operands, with exponents apart. Not for speed.
uint any_parametric_softplus(uint x, uint alpha, uint beta, Scaled inner, Scaled outer, Double line) {
    Double factor = shortened(outer.significand);
    bool is_rising = int(x ^ beta) >= 0;
    float number = bounded_magnitude(x, inner.exponent);
    Double t = softplus_argument(number, shortened(inner.significand));
    Double base = short_product(shortened(is_rising ? number : 0.0), line);
    Double logarithm = softplus_logarithm(t, factor);
    precise float low = base.low + logarithm.low;
    Scaled value = Scaled(sum_of_softplus(base.high, logarithm.high, low), 0);
    int magnitude = int(x & MAGNITUDE_F32);
    if (floatBitsToInt(t.high) >= SOFTPLUS_ROWS_END) {
        Scaled parts = scaled(uint(magnitude));
        float above = rounded_short_product(line, shortened(parts.significand));
        value = softplus_far_below(t, factor);
        value.significand = is_rising ? above : value.significand;
        value.exponent = is_rising ? parts.exponent + inner.exponent : value.exponent;
    }
    uint bits = scaled_bits(value.significand, value.exponent + outer.exponent);
    // What the logarithm is for alpha: zero or infinity where x or beta is infinite.
    bool is_infinite = max(magnitude, int(beta & MAGNITUDE_F32)) == int(INFINITY_F32);
    uint limit = is_infinite ? (is_rising ? INFINITY_F32 : 0u) : ONE_F32;
    bool is_number = has_product(x, beta) && has_product(alpha, limit);
    return is_number ? bits | (alpha & SIGN_F32) : NAN_F32;
}

// parametric_softplus_f32 where the argument has a row, and the attributes are moderate.
uint moderate_parametric_softplus(uint x, uint alpha, uint beta, Scaled inner, Scaled outer, Double line, out bool needs_slow_path) {
    bool is_moderate = is_moderate_exponent(inner.exponent) && is_moderate_exponent(outer.exponent);
    float inner_power = power_of_two(moderate_exponent(inner.exponent));
    float outer_power = power_of_two(moderate_exponent(outer.exponent));
    precise float number = uintBitsToFloat(x & MAGNITUDE_F32);
    Double t = softplus_argument(number, times_power(shortened(inner.significand), inner_power));
    Double logarithm = softplus_logarithm(t, times_power(shortened(outer.significand), outer_power));
    Double slope = times_power(times_power(line, inner_power), outer_power);
    Double base = short_product(shortened(int(x ^ beta) >= 0 ? number : 0.0), slope);
    precise float low = base.low + logarithm.low;
    needs_slow_path = is_beyond_softplus(t.high, is_moderate);
    return floatBitsToUint(sum_of_softplus(base.high, logarithm.high, low)) | (alpha & SIGN_F32);
}

// The same for what is given (FAST_PATH_OPERATION, elementwise_contiguous.glsl).
uint ordinary_parametric_softplus_f32(uint x, uint alpha, uint beta, out bool needs_slow_path) {
    Scaled inner = scaled(beta & MAGNITUDE_F32);
    Scaled outer = scaled(alpha & MAGNITUDE_F32);
    Double line = shortened(two_product(inner.significand, outer.significand));
    return moderate_parametric_softplus(x, alpha, beta, inner, outer, line, needs_slow_path);
}

// alpha * ln(1 + e^(beta * x)). Zeros and infinities are taken as IEEE 754 evaluates the formula. Largest error found by search over
// all magnitudes: 0.775 ULP, of e^-t for t above 60; of rows 0.622. About 52 operations, beside those on alpha and beta alone.
uint parametric_softplus_f32(uint x, uint alpha, uint beta) {
    Scaled inner = scaled(beta & MAGNITUDE_F32);
    Scaled outer = scaled(alpha & MAGNITUDE_F32);
    Double line = shortened(two_product(inner.significand, outer.significand));
    bool needs_slow_path;
    uint result = moderate_parametric_softplus(x, alpha, beta, inner, outer, line, needs_slow_path);
    if (needs_slow_path) { result = any_parametric_softplus(x, alpha, beta, inner, outer, line); }
    return result;
}
uint parametric_softplus_f16(uint x, uint alpha, uint beta) {
    return float16_from_float32(parametric_softplus_f32(float32_from_float16(x), alpha, beta));
}

#endif
