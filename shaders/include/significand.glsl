// Numbers apart from their exponents, for products of which a step may leave float32's range although the result is in it;
// and numbers in two words of which the first one is short.
#ifndef SIGNIFICAND_GLSL
#define SIGNIFICAND_GLSL

#include "error_free.glsl"
#include "float32.glsl"

// significand * 2^exponent, the significand from 1 to 2 in magnitude.
struct Scaled {
    float significand;
    int exponent;
};

// Zeros and denormals get an exponent so low, infinities one so high that it decides every product of a few factors. Those
// of zero and infinity are for has_product to find.
#define EXPONENT_OF_ZERO (-4096)
#define EXPONENT_OF_INFINITY 1024

// A number apart from its exponent; a NaN is taken for some infinity. 9 operations.
Scaled scaled(uint x) {
    int magnitude = int(x & MAGNITUDE_F32);
    int exponent = (magnitude >> 23) - 127;
    exponent = magnitude < int(SMALLEST_NORMAL_F32) ? EXPONENT_OF_ZERO : exponent;
    exponent = magnitude >= int(INFINITY_F32) ? EXPONENT_OF_INFINITY : exponent;
    return Scaled(uintBitsToFloat((x & 0x807fffffu) | ONE_F32), exponent);
}

// Whether a * b is a number: neither is NaN, and it is not zero (or a denormal) times infinity. 6 operations.
bool has_product(uint a, uint b) {
    int first = int(a & MAGNITUDE_F32);
    int second = int(b & MAGNITUDE_F32);
    int beyond = min(first, second) < int(SMALLEST_NORMAL_F32) ? int(INFINITY_F32) : int(INFINITY_F32) + 1;
    return max(first, second) < beyond;
}

// The bits of value * 2^exponent, for a normal number and any exponent between -2^24 and 2^24: where float32's range ends,
// infinity or zero of the number's sign. 11 operations.
uint scaled_bits(float value, int exponent) {
    uint bits = floatBitsToUint(value);
    int field = (int(bits & MAGNITUDE_F32) >> 23) + exponent;
    uint result = bits + (uint(exponent) << 23);
    result = field > 254 ? (bits & SIGN_F32) | INFINITY_F32 : result;
    return field < 1 ? bits & SIGN_F32 : result;
}

// The same number with a first word of 12 bits, for |x.low| below |x.high| / 2. 3 operations.
Double shortened(Double x) {
    float high = leading_half(x.high);
    precise float low = (x.high - high) + x.low;
    return Double(high, low);
}
Double shortened(float x) { return shortened(Double(x, 0.0)); }

// a * b of numbers with first words of 12 bits: the product of those is exact. Relative error: 2^-34, or 2^-24 of what the
// second words contribute. 6 operations.
Double short_product(Double a, Double b) {
    precise float high = a.high * b.high;
    precise float b_rounded = b.high + b.low;
    precise float low = a.high * b.low + a.low * b_rounded;
    return Double(high, low);
}

// The same in one word, rounded once. 5 operations.
float rounded_short_product(Double a, Double b) {
    precise float b_rounded = b.high + b.low;
    precise float low = a.high * b.low + a.low * b_rounded;
    return exact_product_plus(a.high, b.high, low);
}

// The bits of factor * value * 2^exponent, rounded once; factor is shortened, value need not be.
uint rounded_product(Double factor, Double value, int exponent) {
    return scaled_bits(rounded_short_product(factor, shortened(value)), exponent);
}

#endif
