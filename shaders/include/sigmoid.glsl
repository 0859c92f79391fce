// The logistic function 1 / (1 + e^-x), and what is a product of it.
#ifndef SIGMOID_GLSL
#define SIGMOID_GLSL

#include "exponential.glsl"
#include "quick_division.glsl"
#include "short_product.glsl"
#include "significand.glsl"

// 1 / (one + power) where power is that of a Decay and `one`, a power of two, what 1 is beside it: (high + low), high being of
// 12 bits and 0 <= low < 2^-8.9 * high. Relative error: 2^-27. 18 operations.
Double reciprocal_of_sum(float one, Double power) {
    // A linear guess in the logarithm, made by subtracting the bits, and Newton's iteration once, with a constant that
    // spreads the error around zero: 2^-9.6.
    precise float divisor = one + (power.high + power.low);
    precise float inverse = uintBitsToFloat(0x7ef33400u - floatBitsToUint(divisor));
    inverse = leading_half(inverse * (2.00127991 - divisor * inverse));
    // d = 1 - inverse * (one + power): of the two exact products the larger one is subtracted first. 1 / (1 - d) = 1 + d + d^2.
    int one_bits = floatBitsToInt(one);
    int power_bits = floatBitsToInt(power.high);
    float larger = intBitsToFloat(max(one_bits, power_bits));
    float smaller = intBitsToFloat(min(one_bits, power_bits));
    precise float d = exact_product_plus(-inverse, smaller, exact_product_plus(-inverse, larger, 1.0)) - inverse * power.low;
    precise float low = inverse * (d + d * d);
    return Double(inverse, low);
}

// From here on sigmoid(x) rounds to 1.
#define SIGMOID_END 0x41900000 // 18

// 1 / (1 + e^-x) = 2^count / (2^count + power), for both signs.
// Largest error over all 2^32 inputs: 0.7787 ULP, at -15.5962534 (0xc1798a41). 42 operations.
uint sigmoid_f32(uint x) {
    Decay e = quick_decay(intBitsToFloat(min(int(x), SIGMOID_END)));
    Double value = reciprocal_of_sum(intBitsToFloat(e.exponent_bits + int(ONE_F32)), e.power);
    precise float sum = value.high + value.low;
    uint result = uint(floatBitsToInt(sum) + e.exponent_bits);
    // Of two negative numbers, the one further from zero has the greater bits.
    result = int(x) > int(LOWEST_EXPONENT) && int(x) < 0 ? 0u : result;
    return int(x & MAGNITUDE_F32) > int(INFINITY_F32) ? NAN_F32 : result;
}
FLOAT16_FORM_1(sigmoid)

// |a * b|, but at least 2^-40, and at most about `largest`, which is below 256, given by its bits. 24 operations.
Double bounded_product(Scaled a, Scaled b, int largest) {
    Double unrounded = short_product(shortened(a.significand), shortened(b.significand));
    Double product = fast_two_sum(unrounded.high, unrounded.low);
    float scale = power_of_two(min(max(a.exponent + b.exponent, -40), 8));
    precise float high = scale * product.high;
    precise float low = scale * product.low;
    uint sign = floatBitsToUint(high) & SIGN_F32;
    int bounded = min(int(floatBitsToUint(high) ^ sign), largest);
    return Double(intBitsToFloat(bounded), uintBitsToFloat(floatBitsToUint(low) ^ sign));
}

// dividend / (one + power) rounded once, where power is that of a Decay, `one` a power of two, and dividend positive. 20
// operations.
float quotient_by_sum(float dividend, float one, Double power) {
    precise float divisor = one + (power.high + power.low);
    precise float inverse = quick_inverse(divisor);
    // Of 12 bits, so that two products are exact, of which the larger one is subtracted first.
    precise float head = leading_half(dividend * inverse);
    int one_bits = floatBitsToInt(one);
    int power_bits = floatBitsToInt(power.high);
    float larger = intBitsToFloat(max(one_bits, power_bits));
    float smaller = intBitsToFloat(min(one_bits, power_bits));
    precise float rest = exact_product_plus(-head, smaller, exact_product_plus(-head, larger, dividend)) - head * power.low;
    precise float quotient = head + rest * inverse;
    return quotient;
}

#define LARGEST_SWISH 0x43310000 // 177

// x * sigmoid(x), for 2^-60 <= |x| <= 20. 47 operations.
#define SWISH_BEGIN 0x21800000
#define SWISH_END 0x41a00000
uint swish_of_one(uint x) {
    Decay e = quick_decay(uintBitsToFloat(x));
    precise float dividend = uintBitsToFloat(x & MAGNITUDE_F32);
    float quotient = quotient_by_sum(dividend, intBitsToFloat(e.exponent_bits + int(ONE_F32)), e.power);
    return uint(floatBitsToInt(quotient) + e.exponent_bits) | (x & SIGN_F32);
}

// x * sigmoid(scale * x) = x * 2^count / (2^count + power). Largest error over all 2^32 inputs with a scale of 1: 0.7486 ULP,
// at -5.22451019 (0xc0a72f30); found with others: 0.758 ULP, where scale * x is about -9; from the roundings follows 0.95 at most. 66
// operations. special is the scale where that is 1 (special_attribute.glsl). Products that leave float32's range on their way, and arguments whose result is near an end of that, take the
// branch.
uint swish_f32(uint x, uint sigmoid_input_scale, uint special) {
    int magnitude = int(x & MAGNITUDE_F32);
    if (special == ONE_F32 && magnitude >= SWISH_BEGIN && magnitude <= SWISH_END) { return swish_of_one(x); }
    precise float number = uintBitsToFloat(x);
    precise float factor = uintBitsToFloat(sigmoid_input_scale);
    precise float high = number * factor;
    precise float low = rest_of_product(number, factor, high);
    precise float dividend = intBitsToFloat(magnitude);
    bool is_ordinary = int(floatBitsToUint(high) & MAGNITUDE_F32) <= SWISH_END && is_moderate(x);
    bool is_negative = int(x ^ sigmoid_input_scale) < 0;
    if (!is_ordinary) {
        Scaled parts = scaled(x);
        Double product = bounded_product(scaled(sigmoid_input_scale), parts, LARGEST_SWISH);
        high = is_negative ? uintBitsToFloat(floatBitsToUint(product.high) ^ SIGN_F32) : product.high;
        low = is_negative ? uintBitsToFloat(floatBitsToUint(product.low) ^ SIGN_F32) : product.low;
        high = floatBitsToInt(high) > 0x42700000 ? 60.0 : high;
        dividend = uintBitsToFloat(floatBitsToUint(parts.significand) & MAGNITUDE_F32);
    }
    Decay e = decay(Double(high, low));
    float one = intBitsToFloat(max(e.exponent_bits, -60 << 23) + int(ONE_F32));
    float quotient = quotient_by_sum(dividend, one, e.power);
    uint result = uint(floatBitsToInt(quotient) + e.exponent_bits);
    if (!is_ordinary) {
        result = scaled_bits(quotient, scaled(x).exponent + (e.exponent_bits >> 23));
        // e^-177 times the largest number is below 2^-126; and the limit for an infinite x is zero too.
        result = is_negative && floatBitsToUint(high) >= uint(LARGEST_SWISH) + SIGN_F32 ? 0u : result;
        return has_product(x, sigmoid_input_scale) ? result | (x & SIGN_F32) : NAN_F32;
    }
    return result | (x & SIGN_F32);
}
// The same for ordinary arguments, and for zeros (FAST_PATH_OPERATION, elementwise_contiguous.glsl).
uint ordinary_swish_f32(uint x, uint sigmoid_input_scale, uint special, out bool needs_slow_path) {
    int magnitude = int(x & MAGNITUDE_F32);
    bool is_zero = magnitude == 0 && int(sigmoid_input_scale & MAGNITUDE_F32) < int(INFINITY_F32);
    if (special == ONE_F32) {
        needs_slow_path = !is_zero && (magnitude < SWISH_BEGIN || magnitude > SWISH_END);
        return is_zero ? x : swish_of_one(x);
    }
    precise float number = uintBitsToFloat(x);
    precise float factor = uintBitsToFloat(sigmoid_input_scale);
    precise float high = number * factor;
    precise float low = rest_of_product(number, factor, high);
    needs_slow_path = !is_zero && (int(floatBitsToUint(high) & MAGNITUDE_F32) > SWISH_END || !is_moderate(x));
    Decay e = decay(Double(high, low));
    float one = intBitsToFloat(max(e.exponent_bits, -60 << 23) + int(ONE_F32));
    float quotient = quotient_by_sum(intBitsToFloat(magnitude), one, e.power);
    return is_zero ? x : uint(floatBitsToInt(quotient) + e.exponent_bits) | (x & SIGN_F32);
}
uint swish_f16(uint x, uint sigmoid_input_scale, uint special) {
    return float16_from_float32(swish_f32(float32_from_float16(x), sigmoid_input_scale, special));
}

#endif
