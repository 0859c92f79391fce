// Error-free transformations: float32 sums and products together with what their rounding lost, and quotients and square
// roots in two words. Sources: T. J. Dekker, «A floating-point technique for extending the available precision» (1971);
// D. E. Knuth, «The Art of Computer Programming», volume 2, 4.2.2; J.-M. Muller et al., «Handbook of Floating-Point
// Arithmetic», chapters 4 and 5.
//
// Valid where nothing overflows and no intermediate is denormal: products of two_product need magnitudes above 2^-78, say.
#ifndef ERROR_FREE_GLSL
#define ERROR_FREE_GLSL

// A number in two words: the value is high + low, and high is that sum rounded.
struct Double {
    float high, low;
};

// a * b + c where a * b is exact, and zero or no denormal: because both have few bits, or one is a power of two. fma() may round once
// or twice, as a device likes; where the product needs no rounding both are the same, and on most devices one instruction instead
// of two. Nothing else in this library calls fma(), but for the next function: scripts/check_shaders.py sees to it.
float exact_product_plus(float a, float b, float c) {
    precise float sum = fma(a, b, c);
    return sum;
}

// a * b + c, rounded once or twice, as a device likes, where the product is not exact: for functions of one FLOAT16 number
// whose results are the same however each of their sums is rounded. tests/kernels/test_loose_products.py tries every choice for
// every argument; scripts/check_shaders.py knows which files may call it.
float loose_product_plus(float a, float b, float c) {
    precise float sum = fma(a, b, c);
    return sum;
}

// a + b exactly, for any a and b. 6 operations.
Double two_sum(float a, float b) {
    precise float total = a + b;
    precise float b_part = total - a;
    precise float a_part = total - b_part;
    precise float b_error = b - b_part;
    precise float a_error = a - a_part;
    precise float error = a_error + b_error;
    return Double(total, error);
}

// a + b exactly, where |a| >= |b| or a is 0. 3 operations.
Double fast_two_sum(float a, float b) {
    precise float total = a + b;
    precise float b_part = total - a;
    precise float error = b - b_part;
    return Double(total, error);
}

// The first 12 bits of a number's significand; what is left has 12 too.
float leading_half(float a) { return uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u); }

// a * b exactly. 13 operations.
Double two_product(float a, float b) {
    precise float product = a * b;
    precise float a_high = leading_half(a);
    precise float a_low = a - a_high;
    precise float b_high = leading_half(b);
    precise float b_low = b - b_high;
    precise float error = exact_product_plus(a_high, b_high, -product);
    error = exact_product_plus(a_high, b_low, error);
    error = exact_product_plus(a_low, b_high, error);
    error = exact_product_plus(a_low, b_low, error);
    return Double(product, error);
}

// a * a exactly. 8 operations.
Double two_square(float a) {
    precise float square = a * a;
    precise float a_high = leading_half(a);
    precise float a_low = a - a_high;
    precise float error = exact_product_plus(a_high, a_high, -square);
    error = exact_product_plus(a_high + a_high, a_low, error);
    error = exact_product_plus(a_low, a_low, error);
    return Double(square, error);
}

// 1 / b within 2^-22 (relative), for 2^-125 <= |b| <= 2^125. 10 operations: a linear guess in the logarithm, made by
// subtracting the bits, then Newton's iteration three times.
float reciprocal_estimate(float b) {
    precise float y = uintBitsToFloat(0x7ef311c7u - floatBitsToUint(b));
    y = y * (2.0 - b * y);
    y = y * (2.0 - b * y);
    y = y * (2.0 - b * y);
    return y;
}

// a / b within 2^-42 (relative), for 2^-60 <= |a|, |b| <= 2^60. 28 operations.
Double quotient(float a, float b) {
    precise float inverse = reciprocal_estimate(b);
    precise float guess = a * inverse;
    Double product = two_product(guess, b);
    precise float remainder = (a - product.high) - product.low; // the first difference is exact
    precise float correction = remainder * inverse;
    return fast_two_sum(guess, correction);
}

// (a.high + a.low) / (b.high + b.low) within 2^-40 (relative), in the same range. 31 operations.
Double quotient(Double a, Double b) {
    precise float inverse = reciprocal_estimate(b.high);
    precise float guess = a.high * inverse;
    Double product = two_product(guess, b.high);
    precise float remainder = (a.high - product.high) - product.low;
    remainder = remainder + (a.low - guess * b.low);
    precise float correction = remainder * inverse;
    return fast_two_sum(guess, correction);
}

// 1 / sqrt(a) within 2^-21 (relative), for 2^-125 <= a <= 2^125. 15 operations.
float inverse_square_root_estimate(float a) {
    precise float half_a = 0.5 * a;
    precise float y = uintBitsToFloat(0x5f375a86u - (floatBitsToUint(a) >> 1));
    y = y * (1.5 - half_a * (y * y));
    y = y * (1.5 - half_a * (y * y));
    y = y * (1.5 - half_a * (y * y));
    return y;
}

// sqrt(a) within 2^-42 (relative), for 2^-60 <= a <= 2^120. 30 operations.
Double square_root(float a) {
    precise float inverse = inverse_square_root_estimate(a);
    precise float guess = a * inverse;
    Double square = two_square(guess);
    precise float remainder = (a - square.high) - square.low;
    precise float correction = remainder * (0.5 * inverse);
    return fast_two_sum(guess, correction);
}

#endif
