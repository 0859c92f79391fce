// A multiple of the hyperbolic tangent of a multiple: a square in each of many intervals, and products in two words.
#ifndef SCALED_TANH_GLSL
#define SCALED_TANH_GLSL

#include "coefficients.glsl"
#include "hyperbolic.glsl"

// tanh in two words, the first one of 12 bits, for 2^-40 <= x <= 40, of which the double is given. Not for speed.
Double any_tangent(Double doubled, Tangent tangent) {
    precise float x = 0.5 * doubled.high;
    precise float x_low = 0.5 * doubled.low;
    float small_high = leading_half(x);
    precise float small_low = ((x - small_high) + x_low) - x * (x * x * 0.333333333);
    precise float lack = tangent.complement * -2.0;
    int bits = floatBitsToInt(x);
    bool is_small = bits < TANH_CENTRE;
    bool is_large = bits >= TANH_CENTRE_END;
    float large_low = bits < TANH_END ? lack : 0.0;
    float high = is_small ? small_high : is_large ? 1.0 : tangent.head;
    float low = is_small ? small_low : is_large ? large_low : tangent.rest;
    return Double(high, low);
}

// As decay (exponential.glsl), but that what r loses by its rounding is made good: near zero that counts beside 1 - e^-x. 28 operations.
Decay exact_decay(Double x) {
    precise float shifted = x.high * 1.44269504 + 12582912.0;
    precise float count = shifted - 12582912.0;
    precise float head = exact_product_plus(count, -0.693145752, x.high);
    precise float tail = count * 1.42860677e-06 - x.low;
    precise float a = (head + 6144.0) - 6144.0;
    precise float b = (head - a) - tail;

    precise float r = head - tail;
    precise float lost = (head - r) - tail;
    precise float square = r * r;
    precise float cubic = 1.39357650e-03 - 1.99534115e-04 * r;
    cubic = cubic * r - 8.33319779e-03;
    cubic = cubic * r + 4.16664556e-02;
    cubic = cubic * r - 1.66666672e-01;
    cubic = (cubic * square + lost) * r;
    precise float high = 1.0 - a;
    precise float low = exact_product_plus(0.5, square, cubic - b);
    return Decay(Double(high, low), floatBitsToInt(shifted) << 23);
}

// scaled_tanh_f32 for any operands, with exponents apart. Not for speed.
uint any_scaled_tanh_f32(uint x, uint alpha, uint beta) {
    Double argument = bounded_product(scaled(beta), scaled(x), 0x42200000); // 40
    precise float high = argument.high + argument.high;
    precise float low = argument.low + argument.low;
    Double doubled = Double(high, low);
    Scaled outer = scaled(alpha);
    Double tangent = any_tangent(doubled, hyperbolic_tangent(exact_decay(doubled)));
    float product = rounded_short_product(tangent, shortened(outer.significand));
    // Where Beta * x is below 2^-40, tanh of 2^-40 and more was taken: there it is proportional to its argument.
    int exponent = scaled(x).exponent + scaled(beta).exponent;
    uint result = scaled_bits(product, outer.exponent + min(exponent + 40, 0)) ^ ((x ^ beta) & SIGN_F32);
    // tanh(Beta * x) is zero where a factor is.
    uint stand_in = exponent < EXPONENT_OF_ZERO / 2 ? 0u : ONE_F32;
    return has_product(x, beta) && has_product(alpha, stand_in) ? result : NAN_F32;
}

// scaled_tanh_f32 where beta * x has a row.
uint central_scaled_tanh(uint x, uint alpha, uint beta, out bool needs_slow_path) {
    Double product = short_product(shortened(uintBitsToFloat(x & MAGNITUDE_F32)), shortened(uintBitsToFloat(beta & MAGNITUDE_F32)));
    Double argument = fast_two_sum(product.high, product.low);
    uint bits = floatBitsToUint(argument.high);
    uint number = min(max(bits >> 16, uint(TANH_CENTRE) >> 16), uint(TANH_CENTRE_END - 1) >> 16);
    vec4 row = coefficient_row(TANH_ROWS - (uint(TANH_CENTRE) >> 16) + number);
    float value = rounded_short_product(value_of_row(row, argument), shortened(uintBitsToFloat(alpha)));
    needs_slow_path = is_outside(bits, TANH_CENTRE, TANH_CENTRE_END, is_near_one(alpha) && is_near_one(beta));
    return floatBitsToUint(value) ^ ((x ^ beta) & SIGN_F32);
}

// alpha * tanh(beta * x). Largest error found by search over all magnitudes: 0.885 ULP, of any_scaled_tanh_f32 where beta * x is about 0.16
// (1 - e^-2x loses two bits there; from the roundings follows 0.949 at most); of rows 0.678. 34 operations, beside those on attributes alone.
uint scaled_tanh_f32(uint x, uint alpha, uint beta) {
    bool needs_slow_path;
    uint result = central_scaled_tanh(x, alpha, beta, needs_slow_path);
    if (needs_slow_path) { result = any_scaled_tanh_f32(x, alpha, beta); }
    return result;
}
// The same where beta * x has a row, and of zeros (FAST_PATH_OPERATION, elementwise_contiguous.glsl).
uint ordinary_scaled_tanh_f32(uint x, uint alpha, uint beta, out bool needs_slow_path) {
    uint result = central_scaled_tanh(x, alpha, beta, needs_slow_path);
    bool is_zero = (x & MAGNITUDE_F32) == 0u && is_near_one(alpha) && is_near_one(beta);
    needs_slow_path = needs_slow_path && !is_zero;
    return is_zero ? (x ^ alpha ^ beta) & SIGN_F32 : result;
}
uint scaled_tanh_f16(uint x, uint alpha, uint beta) {
    return float16_from_float32(scaled_tanh_f32(float32_from_float16(x), alpha, beta));
}

#endif
