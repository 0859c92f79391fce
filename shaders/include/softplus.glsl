// ln(1 + e^(b * x)), times or divided by an attribute: without overflow, cancellation or a lost product.
//
// With t = |b * x| in two words, ln(1 + e^(b * x)) is ln(1 + e^-t), plus t where b * x is above zero. Numbers are kept as
// mantissas of two words and exponents of their own until the end, so that no product of attributes leaves the range.
#ifndef SOFTPLUS_GLSL
#define SOFTPLUS_GLSL

#include "exponential.glsl"
#include "logarithm.glsl"

// (high + low) * 2^exponent, of either sign; 0, infinity and NaN by high alone.
struct ScaledDouble {
    float high;
    float low;
    int exponent;
};

bool is_zero_f32(uint x) { return (x & INFINITY_F32) == 0u; }
bool is_infinite_f32(uint x) { return (x & MAGNITUDE_F32) == INFINITY_F32; }
bool is_not_a_number_f32(uint x) { return int(x & MAGNITUDE_F32) > int(INFINITY_F32); }

// The magnitude of a normal number, between 1 and 2, and its exponent.
float mantissa_of(uint x) { return uintBitsToFloat((x & 0x007fffffu) | ONE_F32); }
int exponent_of(uint x) { return int((x >> 23) & 0xffu) - 127; }
bool is_power_of_two(uint x) { return (x & 0x007fffffu) == 0u; }

// a times the magnitude of b's mantissa, exactly. Attributes are often 1.
Double mantissa_product(float a, uint b)
{
    if (is_power_of_two(b)) {
        return Double(a, 0.0);
    }
    return two_product(a, mantissa_of(b));
}

// ln(1 + e^(b * x)) of numbers, b and x being finite. Within a relative 2^-26.
ScaledDouble softplus_of_product(uint x, uint b)
{
    Double product = mantissa_product(mantissa_of(x), b);
    int exponent = exponent_of(x) + exponent_of(b);
    bool is_zero = is_zero_f32(x) || is_zero_f32(b);
    // t is not below 2^-60, where ln(1 + e^-t) is ln 2; what is above 180 is brought down to that.
    precise float scale = power_of_two(is_zero ? -60 : min(max(exponent, -60), 8));
    precise float t_high = product.high * scale;
    precise float t_low = product.low * scale;
    bool is_far = floatBitsToInt(t_high) >= 0x43340000;
    int k;
    Double power = exponential(Double(is_far ? -180.0 : -t_high, is_far ? 0.0 : -t_low), k);
    Double u = fast_two_sum(power.high, power.low);
    float power_scale = power_of_two(max(k, -60));
    precise float u_high = u.high * power_scale;
    precise float u_low = u.low * power_scale;
    Double logarithm = log1p(Double(u_high, u_low), 0);

    if (((x ^ b) & SIGN_F32) != 0u) {
        bool is_small = k < -30; // the power itself is the logarithm to within 2^-31
        return ScaledDouble(is_small ? u.high : logarithm.high, is_small ? u.low : logarithm.low, is_small ? k : 0);
    }
    Double sum = two_sum(t_high, logarithm.high);
    precise float sum_low = sum.low + (t_low + logarithm.low);
    bool is_large = floatBitsToInt(t_high) >= 0x42000000; // above 32 the logarithm is below 2^-46
    return ScaledDouble(is_large ? product.high : sum.high, is_large ? product.low : sum_low, is_large ? exponent : 0);
}

// value * 2^exponent of a value between 2^-100 and 2^100, rounded to 24 bits already.
uint with_exponent(float value, int exponent)
{
    uint bits = floatBitsToUint(value);
    int biased = int((bits >> 23) & 0xffu) + exponent;
    uint scaled = bits + (uint(exponent) << 23);
    return biased >= 255 ? INFINITY_F32 : (biased <= 0 ? 0u : scaled);
}

// ln(1 + e^(b * x)) where b * x is not a number that way: NaN, infinity or 0 as IEEE 754 evaluates the formula.
// Other bits are those of 1: some number above zero.
uint special_softplus(uint x, uint b)
{
    bool is_infinite = is_infinite_f32(x) || is_infinite_f32(b);
    bool is_nan = is_not_a_number_f32(x) || is_not_a_number_f32(b) || (is_infinite && (is_zero_f32(x) || is_zero_f32(b)));
    uint limit = ((x ^ b) & SIGN_F32) == 0u ? INFINITY_F32 : 0u;
    return is_nan ? NAN_F32 : (is_infinite ? limit : ONE_F32);
}

// ln(1 + e^(steepness * x)) / steepness. Largest error found with 600 steepnesses: 0.706 ULP. 240 operations.
uint softplus_f32(uint x, uint steepness)
{
    ScaledDouble numerator = softplus_of_product(x, steepness);
    precise float value = numerator.high + numerator.low;
    if (!is_power_of_two(steepness)) {
        precise float divisor = mantissa_of(steepness);
        precise float inverse = reciprocal_estimate(divisor);
        precise float guess = numerator.high * inverse;
        Double product = two_product(guess, divisor);
        precise float remainder = ((numerator.high - product.high) - product.low) + numerator.low;
        value = guess + remainder * inverse;
    }
    uint result = with_exponent(value, numerator.exponent - exponent_of(steepness));
    uint special = special_softplus(x, steepness);
    bool by_zero = is_zero_f32(steepness), by_infinity = is_infinite_f32(steepness);
    result = by_zero ? INFINITY_F32 : result;
    result = special != ONE_F32 ? special : result;
    bool is_nan = special == NAN_F32 || (by_infinity && special == INFINITY_F32);
    return is_nan ? NAN_F32 : (steepness & SIGN_F32) | result;
}
uint softplus_f16(uint x, uint steepness)
{
    return float16_from_float32(softplus_f32(float32_from_float16(x), steepness));
}

// alpha * ln(1 + e^(beta * x)). Largest error found with 600 pairs of attributes: 0.681 ULP. 230 operations.
uint parametric_softplus_f32(uint x, uint alpha, uint beta)
{
    ScaledDouble factor = softplus_of_product(x, beta);
    precise float value = factor.high + factor.low;
    if (!is_power_of_two(alpha)) {
        precise float other = mantissa_of(alpha);
        Double product = two_product(factor.high, other);
        value = product.high + (product.low + factor.low * other);
    }
    uint result = with_exponent(value, factor.exponent + exponent_of(alpha));
    uint special = special_softplus(x, beta);
    bool by_zero = is_zero_f32(alpha), by_infinity = is_infinite_f32(alpha);
    result = special != ONE_F32 ? special : result;
    bool is_nan = special == NAN_F32 || is_not_a_number_f32(alpha)
        || (by_infinity && special == 0u) || (by_zero && special == INFINITY_F32);
    result = by_zero ? 0u : (by_infinity ? INFINITY_F32 : result);
    return is_nan ? NAN_F32 : (alpha & SIGN_F32) | result;
}
uint parametric_softplus_f16(uint x, uint alpha, uint beta)
{
    return float16_from_float32(parametric_softplus_f32(float32_from_float16(x), alpha, beta));
}

#endif
