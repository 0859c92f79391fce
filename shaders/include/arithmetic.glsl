// Sums, differences, products and means of floats, correctly rounded. FLOAT32 denormals count as zeros of their sign, in
// operands and in results; FLOAT16 denormals are the numbers they are.
#ifndef ARITHMETIC_GLSL
#define ARITHMETIC_GLSL

#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"
#include "rounding_to_odd.glsl"

// The value of a float16, exactly.
float as_float16(uint x) { return uintBitsToFloat(float32_from_float16(x)); }

// Rounded from float32. That sums, differences and products of float16 values were rounded to 24 bits before does no harm:
// see float16.glsl.
uint as_float16_result(float value) { return float16_from_float32(floatBitsToUint(value)); }

// What the device itself gives for float32 operands that are not denormal. NaN is any NaN; a sum or a difference may be a
// denormal, which stands for the zero of its sign: it is exact, so that nobody sees how the device treats denormal results.
// Kernels of several operators use them where they know enough of the operands (dmlvk/graphs/fusion/forms.py).
uint plain_sum(uint a, uint b) {
    precise float total = uintBitsToFloat(a) + uintBitsToFloat(b);
    return floatBitsToUint(total);
}
uint plain_difference(uint a, uint b) {
    precise float difference = uintBitsToFloat(a) - uintBitsToFloat(b);
    return floatBitsToUint(difference);
}
// For products that are zero or at least 2^-126.
uint plain_product(uint a, uint b) {
    precise float product = uintBitsToFloat(a) * uintBitsToFloat(b);
    return floatBitsToUint(product);
}
// Any a (also a denormal, which counts as zero) times a number that is neither NaN nor infinite. The magnitudes of a up to
// `largest_vanishing` give zero; the product of the next larger one is at least 2^-126 before it is rounded.
uint product_with_number(uint a, uint number, int largest_vanishing) {
    precise float product = uintBitsToFloat(a) * uintBitsToFloat(number);
    bool vanishes = int(a & MAGNITUDE_F32) <= largest_vanishing;
    return vanishes ? (a ^ number) & SIGN_F32 : floatBitsToUint(product);
}
// For operands of which none is denormal, |a| < 2^31 and |a * b| < 2^31. 5 operations. The product is computed 2^96 times as large: there
// it is rounded as it should be, or it vanishes.
uint product_of_bounded(uint a, uint b) {
    precise float scaled = uintBitsToFloat(a) * 79228162514264337593543950336.0; // 2^96
    precise float scaled_product = scaled * uintBitsToFloat(b);
    float back = abs(scaled_product) < 9.31322575e-10 ? 0.0 : 1.26217745e-29; // 2^-30, 2^-96
    precise float product = scaled_product * back;
    return floatBitsToUint(product);
}
// For operands of which none is denormal and |b| < 2^31. 9 operations. The same decides here what vanishes; a product that does not is at
// least 2^-126, whatever a device makes of one that was less before it was rounded.
uint product_with_bounded(uint a, uint b) {
    precise float product = uintBitsToFloat(a) * uintBitsToFloat(b);
    precise float scaled = uintBitsToFloat(b) * 79228162514264337593543950336.0; // 2^96
    precise float scaled_product = scaled * uintBitsToFloat(a);
    uint bits = floatBitsToUint(product);
    uint magnitude = max(bits & MAGNITUDE_F32, uint(SMALLEST_NORMAL_F32));
    return (bits & SIGN_F32) | (abs(scaled_product) < 9.31322575e-10 ? 0u : magnitude); // 2^-30
}

// a + b. 13 operations.
uint add_f32(uint a, uint b) { return as_result(uintBitsToFloat(plain_sum(without_denormal(a), without_denormal(b)))); }
uint add_f16(uint a, uint b) {
    precise float total = as_float16(a) + as_float16(b);
    return as_float16_result(total);
}

// a - b. 13 operations.
uint subtract_f32(uint a, uint b) {
    return as_result(uintBitsToFloat(plain_difference(without_denormal(a), without_denormal(b))));
}
uint subtract_f16(uint a, uint b) {
    precise float difference = as_float16(a) - as_float16(b);
    return as_float16_result(difference);
}

// a * b. 21 operations.
//
// A product that is 2^-126 after rounding to 24 bits, though it was less before, is 2^-126, 0 or a denormal on devices
// that round and flush in this order or that, or keep denormals. So a computed product that is not above 2^-126 is decided
// by another one, 2^96 times as large: either its magnitude is 2^-30 to the bit, or the result is zero. (It may be NaN
// where zero meets a large number.)
uint multiply_f32(uint a, uint b) {
    float x = as_float32(a);
    float y = as_float32(b);
    precise float product = x * y;
    precise float scaled_x = x * 281474976710656.0; // 2^48
    precise float scaled_y = y * 281474976710656.0;
    precise float scaled_product = scaled_x * scaled_y;
    uint bits = floatBitsToUint(product);
    int magnitude = int(bits & MAGNITUDE_F32);
    bool is_smallest = (floatBitsToUint(scaled_product) & MAGNITUDE_F32) == 0x30800000u;
    uint tiny = ((a ^ b) & SIGN_F32) | (is_smallest ? SMALLEST_NORMAL_F32 : 0u);
    uint number = magnitude <= int(SMALLEST_NORMAL_F32) ? tiny : bits;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : number;
}
// Exact in float32, and never below 2^-48. Metal's products are never -0, so the sign of a zero is that of the operands.
uint multiply_f16(uint a, uint b) {
    precise float product = as_float16(a) * as_float16(b);
    uint bits = as_float16_result(product);
    return (bits & 0x7fffu) == 0u ? (a ^ b) & 0x8000u : bits;
}

// (a + b) / 2, rounded once. 21 operations. The sum is halved in its exponent; where it may overflow, the operands are
// halved before: what a small one loses by that is far below the last place.
uint mean_f32(uint a, uint b) {
    float x = as_float32(a);
    float y = as_float32(b);
    precise float total = x + y;
    precise float half_x = 0.5 * x;
    precise float half_y = 0.5 * y;
    precise float total_of_halves = half_x + half_y;
    uint bits = floatBitsToUint(total);
    int magnitude = int(bits & MAGNITUDE_F32);
    uint halved = magnitude < 0x01000000 ? bits & SIGN_F32 : bits - SMALLEST_NORMAL_F32;
    return magnitude < 0x7f000000 ? halved : as_result(total_of_halves);
}
uint mean_f16(uint a, uint b) {
    precise float mean = 0.5 * (as_float16(a) + as_float16(b));
    return as_float16_result(mean);
}

// (a - b)^2: the difference is rounded, then its square. 33 operations.
uint difference_square_f32(uint a, uint b) {
    uint difference = subtract_f32(a, b);
    return multiply_f32(difference, difference);
}
// Of float16 the exact square, rounded once: the difference in two words, the leading one's square in two words, twice the
// words' product; their sum rounded to odd, and from that to float16.
uint exact_difference_square_f16(uint a, uint b) {
    Double words = two_sum(as_float16(a), -as_float16(b));
    Double square = two_square(words.high);
    precise float rest = square.low + (words.high + words.high) * words.low;
    uint odd = rounded_to_odd(fast_two_sum(square.high, rest));
    bool is_finite = int(floatBitsToUint(square.high) & MAGNITUDE_F32) < int(INFINITY_F32);
    return float16_from_float32(is_finite ? odd : floatBitsToUint(square.high));
}

// The difference and its square, each rounded to 24 bits, are off by less than two places together; so the result is right
// unless the 13 bits that float16 has less are that near to a half. Below 2^-13 float16 has multiples of 2^-24, to which the adder
// rounds; there the difference is exact, as a multiple of 2^-24 below 2^-6, and the square is off by less than 2^-37. What is
// nearer to a half than that, too large, or no number, is computed exactly.
uint difference_square_f16(uint a, uint b) {
    precise float difference = as_float16(a) - as_float16(b);
    precise float square = difference * difference;
    uint bits = floatBitsToUint(square);
    precise float shifted = square + 0.75;
    precise float distance = square - (shifted - 0.75);
    int distance_bits = int(floatBitsToUint(distance) & MAGNITUDE_F32);
    bool is_small = int(bits) < 0x39000000; // 2^-13
    bool is_near_half = is_small ? distance_bits >= 0x32fff000 : int((bits - 0xffcu) & 0x1fffu) <= 8; // 2^-25 - 2^-37
    uint result = is_small ? floatBitsToUint(shifted) - 0x3f400000u : quick_float16_from_float32(bits);
    if (is_near_half || int(bits) >= 0x47800000) { // 2^16
        result = exact_difference_square_f16(a, b);
    }
    return result;
}

#endif
