// The continuously differentiable exponential linear unit: e^(x / alpha) - 1 is a square in each of many intervals.
#ifndef CELU_GLSL
#define CELU_GLSL

#include "coefficients.glsl"
#include "exponential_linear.glsl"

// 1 - e^-x = (head + rest) / 2^count, head being of 12 bits and rest below 2^-10 of it; exponent_bits is count * 2^23.
struct Complement {
    float head, rest;
    int exponent_bits;
};

// From here on 1 - e^-x is computed by a power.
#define COMPLEMENT_BEGIN 0x3b800000 // 2^-8

// From the parts of e^-x, for 2^-8 <= x <= 40, and for -177 <= x <= -2^-8. Relative error: 2^-27. 39 operations with those parts.
Complement complement_of_parts(Exponential e) {
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
Double complement_near_zero(float x, float number) {
    precise float lack = x * (0.5 - x * 0.166666667);
    precise float head = leading_half(number);
    precise float rest = (number - head) - number * lack;
    return Double(head, rest);
}

// Rows for 1 - e^-x from 2^-13 up to 8: 128 from a power of two to the next, so that 16 bits of x tell them apart. Nearer to zero lies one of
// 10,000 normally distributed numbers; one without a row costs a GPU as much as the 32 that are computed beside it.
#define COMPLEMENT_ROWS_BEGIN 0x39000000 // 2^-13
#define COMPLEMENT_ROWS_END 0x41000000 // 8
#define COMPLEMENT_END 0x42200000 // 40: from here on it is 1

// 1 - e^-x where it has a row, in two words, of which the first one has 12 bits. x.low is below 2^-11 of x.high, for the row's point
// still lies near enough then. 11 operations.
Double complement_of_row(Double x) {
    uint number = min(max(floatBitsToUint(x.high), uint(COMPLEMENT_ROWS_BEGIN)), uint(COMPLEMENT_ROWS_END - 1)) >> 16;
    return value_of_row(coefficient_row(COMPLEMENT_ROWS - (uint(COMPLEMENT_ROWS_BEGIN) >> 16) + number), x);
}

// alpha * (e^(x / alpha) - 1) for any x below zero and any alpha but 1; zeros elsewhere. Not for speed.
uint any_celu_below(uint x, Scaled factor, Double inverse) {
    Scaled number = scaled(x);
    float significand = uintBitsToFloat(floatBitsToUint(number.significand) & MAGNITUDE_F32);
    Double parts = short_product(inverse, shortened(significand));
    float ratio_scale = power_of_two(min(max(number.exponent - factor.exponent, -40), 9));
    precise float total = (parts.high + parts.low) * ratio_scale;
    precise float total_rest = parts.high * ratio_scale - total + parts.low * ratio_scale;
    bool is_large = int(floatBitsToUint(total) & MAGNITUDE_F32) > 0x43310000; // 177
    float ratio = is_large ? uintBitsToFloat((floatBitsToUint(total) & SIGN_F32) | 0x43310000u) : total;
    float ratio_rest = is_large ? 0.0 : total_rest;
    Complement value = complement_of_parts(exponential_parts(Double(-ratio, -ratio_rest)));
    // Near zero alpha * (e^(x / alpha) - 1) is x less a part of it.
    int ratio_magnitude = int(floatBitsToUint(ratio) & MAGNITUDE_F32);
    bool is_small = ratio_magnitude < COMPLEMENT_BEGIN;
    bool is_one = floatBitsToInt(ratio) > COMPLEMENT_END;
    Double small = complement_near_zero(is_small ? ratio : 0.0, -number.significand);
    float head = is_small ? small.high : is_one ? 1.0 : value.head;
    float rest = is_small ? small.low : is_one ? 0.0 : value.rest;
    Double outer = shortened(is_small ? 1.0 : factor.significand);
    int exponent = is_small ? number.exponent : factor.exponent - (is_one ? 0 : value.exponent_bits >> 23);
    float product_of_parts = rounded_short_product(outer, Double(head, rest));
    return is_below_zero(x) ? scaled_bits(product_of_parts, exponent) ^ SIGN_F32 : without_denormal(x);
}

// max(0, x) + min(0, alpha * (e^(x / alpha) - 1)). Largest error found by search over all magnitudes: 0.712 ULP, of alphas below zero. 33
// operations where alpha is 1, and special therefore the same (special_attribute.glsl), 33 otherwise.
uint celu_f32(uint x, uint alpha, uint special) {
    if (special == ONE_F32) { return exponential_linear_of_one(x); }
    Scaled factor = scaled(alpha);
    Double inverse = shortened(quotient(1.0, factor.significand));
    float scale = power_of_two(min(max(-factor.exponent, -60), 60));
    precise float inverse_high = inverse.high * scale;
    precise float inverse_low = inverse.low * scale;
    Double ratio = short_product(Double(inverse_high, inverse_low), shortened(uintBitsToFloat(x & MAGNITUDE_F32)));
    Double complement = complement_of_row(ratio);
    bool is_below = int(x) < 0;
    float product = times_short(uintBitsToFloat(alpha ^ SIGN_F32), complement.high, complement.low);
    uint result = is_below ? floatBitsToUint(product) : x;
    // Below zero there has to be a row; above it, no number that the result is not.
    uint position = is_below ? floatBitsToUint(ratio.high) - uint(COMPLEMENT_ROWS_BEGIN) : x - SMALLEST_NORMAL_F32;
    uint end = is_below ? uint(COMPLEMENT_ROWS_END - COMPLEMENT_ROWS_BEGIN) : INFINITY_F32 - SMALLEST_NORMAL_F32;
    if (is_outside(position, 0u, end, is_moderate(alpha))) {
        result = no_nan_f32(x, alpha) ? any_celu_below(x, factor, inverse) : NAN_F32;
    }
    return result;
}
uint celu_f16(uint x, uint alpha, uint special) {
    return float16_from_float32(celu_f32(float32_from_float16(x), alpha, special));
}

#endif
