// ln(1 + e^(b * x)), times or divided by an attribute: without overflow, cancellation or a lost product.
//
// With t = |b * x| in two words, ln(1 + e^(b * x)) is ln(1 + e^-t), plus t where b * x is above zero. The logarithm is e^-t
// times a polynomial in e^-t, so that it keeps its relative accuracy however small it is. Attributes are the same for
// all elements: what depends on them alone may branch. Results that one multiplication by a float scales take the short
// end; others are kept apart from their exponents until they are rounded, so that no product leaves float32's range.
#ifndef SOFTPLUS_GLSL
#define SOFTPLUS_GLSL

#include "exponential.glsl"
#include "sigmoid.glsl"
#include "significand.glsl"

#define LARGEST_SOFTPLUS 0x43340000 // 180: e^-180, divided by any number, is below 2^-126
#define SOFTPLUS_IS_LINE 0x42800000 // 64: where e^-t is lost beside t

// Whether products and quotients by it cannot leave the range: from 2^-30 to 2^30.
bool is_moderate(int exponent) { return exponent >= -30 && exponent <= 30; }
bool is_power_of_two(float significand) { return (floatBitsToUint(significand) & 0x007fffffu) == 0u; }

// t = |b * x|, not above LARGEST_SOFTPLUS, if so in one word.
Double softplus_argument(uint x, uint b)
{
    Scaled factor = scaled(b);
    if (!is_moderate(factor.exponent)) {
        return bounded_product(factor, scaled(x), LARGEST_SOFTPLUS);
    }
    float magnitude = uintBitsToFloat(x & MAGNITUDE_F32);
    float b_magnitude = uintBitsToFloat(b & MAGNITUDE_F32);
    precise float product = magnitude * b_magnitude;
    float bounded = intBitsToFloat(min(floatBitsToInt(product), LARGEST_SOFTPLUS));
    if (is_power_of_two(factor.significand)) {
        return Double(bounded, 0.0);
    }
    Double exact = two_product(magnitude, b_magnitude);
    return Double(bounded, floatBitsToInt(product) < LARGEST_SOFTPLUS ? exact.low : 0.0);
}

// What ln(1 + e^x) = (high + low) * 2^exponent is, and 2^exponent, or 2^-96 where that is more.
struct Softplus {
    float high;
    float low;
    int exponent;
    float scale;
};

// ln(1 + e^x) for -180 <= x <= 0 within a relative 2^-25.4, or 2^-26 for refined ones; |low| < high / 8.
//
// With u = e^x it is u * h(u), and h(u) = ln(1 + u) / u = C - 5/16 u + v * series(v), with v = u - c and a c near 1/2 for
// which C = h(c) + 5/16 c is a float but for 2^-38; Sollya's fpminimax found the series for 0 <= u <= 1. h's first 12 bits are
// apart, so that their product with the head of u is exact. 71 operations.
Softplus softplus_of_negative(Double x, bool is_refined)
{
    Exponential power = exponential_parts(x);
    precise float power_head = 1.0 + power.a;
    precise float power_rest = power.half_square + (power.b + power.rest);
    precise float significand = power_head + power_rest;
    float scale = power_of_two(max(power.exponent, -96));
    precise float u = significand * scale;

    precise float v = u - 0.48729229;
    precise float series = -0.00343911699 + v * 0.00205249409;
    series = 0.00435142079 + v * series;
    series = -0.00720955478 + v * series;
    series = 0.0124777062 + v * series;
    series = -0.0214908645 + v * series;
    series = 0.0379464105 + v * series;
    series = -0.0695828199 + v * series;
    series = 0.13522616 + v * series;
    series = 0.0205694698 + v * series;
    precise float bend = v * series;
    precise float quarter = 0.25 * u;
    precise float sixteenth = 0.0625 * u;
    precise float factor = ((0.96689713 - quarter) - sixteenth) + bend;
    float head = leading_half(factor);
    precise float rest = (((0.96689713 - head) - quarter) - sixteenth) + bend; // but for bend exact
    precise float first = power_head;
    precise float second = power_rest;
    precise float correction = 0.0;
    if (is_refined) {
        first = leading_half(significand);
        second = (power_head - first) + power_rest;
        // What u's rounding did to h(u), by the slope of h.
        precise float lost = (power_head - significand) + power_rest;
        correction = lost * (u * (0.29 * u - 0.47));
    }
    precise float high = first * head;
    precise float low = first * rest + second * factor;
    low = is_refined ? low + correction : low;
    return Softplus(high, low, power.exponent, scale);
}

// The logarithm and a number above it, or 0; where the scale is 2^exponent. high + low is not normalized.
Double softplus_sum(Double line, Softplus logarithm)
{
    precise float high = logarithm.scale * logarithm.high;
    precise float low = logarithm.scale * logarithm.low;
    Double sum = two_sum(line.high, high);
    precise float rest = sum.low + (low + line.low);
    return Double(sum.high, rest);
}

// value * unscaled_factor * 2^exponent, rounded once, of numbers for which is_moderate holds; the factor is shortened.
float moderate_product(Double value, Double unscaled_factor, int exponent, bool is_exact)
{
    float scale = power_of_two(exponent);
    precise float factor_high = unscaled_factor.high * scale;
    precise float factor_low = unscaled_factor.low * scale;
    precise float sum = value.high + value.low;
    precise float whole_factor = factor_high + factor_low;
    if (is_exact) {
        precise float exact = sum * whole_factor;
        return exact;
    }
    precise float head = leading_half(sum);
    precise float rest = (value.high - head) + value.low;
    precise float low = head * factor_low + rest * whole_factor;
    precise float product = head * factor_high + low;
    return product;
}

// ln(1 + e^(b * x)) * factor * 2^factor_exponent; the factor is shortened, and its magnitude between 1/2 and 2. What IEEE 754
// evaluates to NaN is not a number for the caller either.
uint softplus_times(uint x, uint b, Double factor, int factor_exponent, bool is_exact, bool is_number)
{
    Double t = softplus_argument(x, b);
    Softplus logarithm = softplus_of_negative(Double(-t.high, -t.low), !is_exact);
    bool is_negative = int(x ^ b) < 0;
    Double sum = softplus_sum(Double(is_negative ? 0.0 : t.high, is_negative ? 0.0 : t.low), logarithm);
    bool is_far = floatBitsToInt(t.high) >= SOFTPLUS_IS_LINE; // or NaN
    Scaled slope = scaled(b);
    if (is_moderate(slope.exponent) && is_moderate(factor_exponent) && !is_far) {
        return floatBitsToUint(moderate_product(sum, factor, factor_exponent, is_exact));
    }
    // Above zero and far from it the line is all there is; zeros and infinities of x and b are in the exponents.
    Scaled number = scaled(x);
    Double line = short_product(shortened(slope.significand), shortened(number.significand));
    Double far = Double(is_negative ? logarithm.high : line.high, is_negative ? logarithm.low : line.low);
    int far_exponent = is_negative ? logarithm.exponent : number.exponent + slope.exponent;
    Double value = fast_two_sum(is_far ? far.high : sum.high, is_far ? far.low : sum.low);
    uint result = rounded_product(factor, value, (is_far ? far_exponent : 0) + factor_exponent);
    return is_number ? result : NAN_F32;
}

// ln(1 + e^(steepness * x)) / steepness. Zeros and infinities are taken as IEEE 754 evaluates the formula.
// Largest error found: 0.706 ULP (of 0xbee3ccaa) among every 17th float32 and a steepness of 1; 0.686 with 600 others.
// 87 operations where the steepness is a power of two, 119 where it is not.
uint softplus_f32(uint x, uint steepness)
{
    Scaled divisor = scaled(steepness);
    Double factor = shortened(quotient(1.0, divisor.significand));
    // 0 * infinity, and infinity by infinity.
    bool is_ratio_of_infinities = (steepness & MAGNITUDE_F32) == INFINITY_F32 && int(x ^ steepness) >= 0;
    bool is_number = has_product(x, steepness) && !is_ratio_of_infinities;
    return softplus_times(x, steepness, factor, -divisor.exponent, is_power_of_two(divisor.significand), is_number);
}
uint softplus_f16(uint x, uint steepness)
{
    return float16_from_float32(softplus_f32(float32_from_float16(x), steepness));
}

// alpha * ln(1 + e^(beta * x)). Zeros and infinities are taken as IEEE 754 evaluates the formula.
// Largest error found with 600 pairs of attributes: 0.668 ULP; where alpha is a power of two, that of softplus.
uint parametric_softplus_f32(uint x, uint alpha, uint beta)
{
    Scaled factor = scaled(alpha);
    // What the logarithm is to alpha: zero or infinity where x or beta is infinite.
    bool is_infinite = max(int(x & MAGNITUDE_F32), int(beta & MAGNITUDE_F32)) == int(INFINITY_F32);
    uint logarithm = is_infinite ? (int(x ^ beta) < 0 ? 0u : INFINITY_F32) : ONE_F32;
    bool is_number = has_product(x, beta) && has_product(alpha, logarithm);
    Double significand = shortened(factor.significand);
    return softplus_times(x, beta, significand, factor.exponent, is_power_of_two(factor.significand), is_number);
}
uint parametric_softplus_f16(uint x, uint alpha, uint beta)
{
    return float16_from_float32(parametric_softplus_f32(float32_from_float16(x), alpha, beta));
}

#endif
