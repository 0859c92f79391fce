// Activations made of straight lines. FLOAT32 denormals count as zeros of their sign in all that they compute, return or
// compare; FLOAT16 denormals are the numbers they are. Attributes are float32 for both. NaN gives the canonical NaN.
#ifndef PIECEWISE_LINEAR_GLSL
#define PIECEWISE_LINEAR_GLSL

#include "affine.glsl"
#include "arithmetic.glsl"
#include "comparison.glsl"
#include "ordinary.glsl"
#include "short_product.glsl"
#include "significand.glsl"

// alpha * x + beta.
uint linear_f32(uint x, uint alpha, uint beta) { return affine_f32(x, alpha, beta); }
uint ordinary_linear_f32(uint x, uint alpha, uint beta, out bool needs_slow_path) { return ordinary_affine_f32(x, alpha, beta, needs_slow_path); }
uint linear_f16(uint x, uint alpha, uint beta) { return affine_f16(x, alpha, beta); }

// max(0, min(alpha * x + beta, 1)), rounded once. The bits of negative numbers are negative integers, those of positive ones
// are in order. 82 operations.
uint hard_sigmoid_f32(uint x, uint alpha, uint beta) {
    uint line = affine_f32(x, alpha, beta);
    uint bounded = uint(min(max(int(line), 0), int(ONE_F32)));
    return line == NAN_F32 ? NAN_F32 : bounded;
}
uint ordinary_hard_sigmoid_f32(uint x, uint alpha, uint beta, out bool needs_slow_path) {
    return uint(min(max(int(ordinary_affine_f32(x, alpha, beta, needs_slow_path)), 0), int(ONE_F32)));
}
uint hard_sigmoid_f16(uint x, uint alpha, uint beta) {
    uint line = affine_f16(x, alpha, beta);
    uint bounded = (line & 0x8000u) != 0u ? 0u : uint(min(int(line), 0x3c00));
    return line == NAN_F16 ? NAN_F16 : bounded;
}

// number times the line's two words, rounded once.
float times_line(float number, Double words) {
    Double factor = shortened(words);
    precise float product = times_short(number, factor.high, factor.low);
    return product;
}

// hard_swish_f32 for any operands, with exponents apart. Not for speed.
uint any_hard_swish_f32(uint x, uint alpha, uint beta) {
    int magnitude = int(x & MAGNITUDE_F32);
    Affine line = affine(x, alpha, beta);
    Double words = affine_words(affine_sum(line.number, line.factor, line.addend));
    uint rounded = with_exponent(floatBitsToUint(words.high), line);
    int sign = line.is_special ? int(rounded) : floatBitsToInt(words.high);
    precise float product = times_line(line.number, words);
    line.exponent += field_of(x) - 127;
    line.is_special = false;
    uint inside = with_exponent(floatBitsToUint(product), line);
    uint unchanged = without_denormal(x);
    uint times_zero = magnitude == int(INFINITY_F32) ? NAN_F32 : unchanged & SIGN_F32;
    uint result = int(rounded) >= int(ONE_F32) ? unchanged : inside;
    result = sign <= 0 || magnitude < int(SMALLEST_NORMAL_F32) ? times_zero : result;
    return rounded == NAN_F32 ? NAN_F32 : result;
}

// hard_swish_f32 for operands that are neither small nor large.
uint central_hard_swish(uint x, uint alpha, uint beta, out bool needs_slow_path) {
    precise float number = uintBitsToFloat(x);
    Double words = affine_words(affine_sum(number, uintBitsToFloat(alpha), uintBitsToFloat(beta)));
    precise float product = times_line(number, words);
    uint result = floatBitsToUint(product);
    result = floatBitsToInt(words.high) >= int(ONE_F32) ? x : result;
    needs_slow_path = is_outside(x & MAGNITUDE_F32, 0x21800000u, 0x67800000u, is_plain(0u, alpha, beta)); // 2^-60, 2^80
    return floatBitsToInt(words.high) <= 0 ? x & SIGN_F32 : result;
}

// x * max(0, min(alpha * x + beta, 1)): where the line is between the bounds, x times the line's two words, with 48 bits, so
// that the result is almost always correctly rounded. The line itself is not rounded, nor zero for being small. 41 operations
// for the usual attributes.
uint hard_swish_f32(uint x, uint alpha, uint beta) {
    bool needs_slow_path;
    uint result = central_hard_swish(x, alpha, beta, needs_slow_path);
    if (needs_slow_path) { result = any_hard_swish_f32(x, alpha, beta); }
    return result;
}
// The same for operands that are neither small nor large, and for zeros (FAST_PATH_OPERATION, elementwise_contiguous.glsl).
uint ordinary_hard_swish_f32(uint x, uint alpha, uint beta, out bool needs_slow_path) {
    uint result = central_hard_swish(x, alpha, beta, needs_slow_path);
    bool is_zero = (x & MAGNITUDE_F32) == 0u && is_plain(0u, alpha, beta);
    needs_slow_path = needs_slow_path && !is_zero;
    return is_zero ? x : result;
}
uint hard_swish_f16(uint x, uint alpha, uint beta) {
    return float16_from_float32(hard_swish_f32(float32_from_float16(x), alpha, beta));
}

// x if x >= 0, otherwise slope * x, rounded once.
uint parameterized_relu_f32(uint x, uint slope) {
    uint number = without_denormal(x);
    uint product = multiply_f32(number, slope);
    uint chosen = int(number) >= 0 || number == SIGN_F32 ? number : product;
    return is_nan_f32(x) ? NAN_F32 : chosen;
}
uint parameterized_relu_f16(uint x, uint slope) {
    uint product = multiply_f16(x, slope);
    uint chosen = int(x) <= 0x8000 ? x : product;
    return is_nan_f16(x) ? NAN_F16 : chosen;
}
uint parameterized_relu_i32(uint x, uint slope) { return int(x) >= 0 ? x : slope * x; }

// x if x >= 0, otherwise alpha * x, rounded once.
uint leaky_relu_f32(uint x, uint alpha) { return parameterized_relu_f32(x, alpha); }

// The product has up to 35 bits, which float32 does not hold: it is rounded to odd first. What two_product cannot split, or
// not exactly, is larger than any float16, or smaller.
uint leaky_relu_f16(uint x, uint alpha) {
    Double product = two_product(as_float16(x), as_float32(alpha));
    uint high = floatBitsToUint(product.high);
    int magnitude = int(high & MAGNITUDE_F32);
    bool splits = magnitude >= 0x30000000 && magnitude < 0x60000000; // 2^-31, 2^65
    uint rounded = float16_from_float32(splits ? rounded_to_odd(product) : high);
    uint chosen = int(x) <= 0x8000 ? x : rounded;
    return is_nan_f16(x) ? NAN_F16 : chosen;
}

// The same in fewer instructions, for x that is not infinite nor NaN and Alpha from 2^-20 to 2^20: products with Alpha's halves are exact.
// 17 operations.
bool is_quick_slope(uint alpha) { return (alpha & MAGNITUDE_F32) - 0x35800000u < 0x14000000u; }
uint quick_leaky_relu_f16(uint x, uint alpha) {
    precise float number = uintBitsToFloat(float32_from_float16(x));
    precise float slope = uintBitsToFloat(alpha);
    float head = leading_half(slope);
    precise float tail = slope - head;
    precise float product_of_head = number * head;
    float product = exact_product_plus(number, tail, product_of_head);
    precise float difference = product_of_head - product; // exact
    float lost = exact_product_plus(number, tail, difference);
    uint bits = floatBitsToUint(number);
    return float16_from_number(bits > SIGN_F32 ? rounded_to_odd(Double(product, lost)) : bits);
}

#endif
