// Quotients and remainders of integers. Nothing is ever divided by zero: dividing by zero gives the quotient 0 and the
// remainder 0. The most negative number divided by -1 wraps to itself, with the remainder 0.
//
//   divide               the quotient truncated toward zero
//   modulus_truncate     the remainder of that: zero, or of the sign of a
//   modulus_floor        the remainder of the quotient rounded down: zero, or of the sign of b
#ifndef INTEGER_DIVISION_GLSL
#define INTEGER_DIVISION_GLSL

#include "error_free.glsl"
#include "integer_arithmetic.glsl"
#include "negation.glsl"

uint divide_u32(uint a, uint b) { return b == 0u ? 0u : a / max(b, 1u); }
uint modulus_truncate_u32(uint a, uint b) { return a % max(b, 1u); }
uint modulus_floor_u32(uint a, uint b) { return modulus_truncate_u32(a, b); }

// x, or -x where the word `negative` is all ones instead of zero.
uint with_sign_i32(uint x, uint negative) { return (x ^ negative) - negative; }

uint divide_i32(uint a, uint b) {
    uint quotient = divide_u32(absolute_i32(a), absolute_i32(b));
    return with_sign_i32(quotient, uint(int(a ^ b) >> 31));
}
uint modulus_truncate_i32(uint a, uint b) {
    uint remainder = modulus_truncate_u32(absolute_i32(a), absolute_i32(b));
    return with_sign_i32(remainder, uint(int(a) >> 31));
}
uint modulus_floor_i32(uint a, uint b) {
    uint remainder = modulus_truncate_i32(a, b);
    return remainder != 0u && int(a ^ b) < 0 ? remainder + b : remainder;
}

struct Division_u64 {
    uvec2 quotient, remainder;
};

// The number, rounded: within 2^-23 (relative).
float float_from_u64(uvec2 x) {
    precise float high = float(int(x.y >> 10)) * 4398046511104.0; // 2^42
    precise float middle = float(int(((x.y & 0x3ffu) << 11) | (x.x >> 21))) * 2097152.0; // 2^21
    precise float low = float(int(x.x & 0x1fffffu));
    precise float total = high + (middle + low);
    return total;
}

// The largest integer that is certainly not above `estimate`, for 0 <= estimate < 2^22: by rounding at the place of 1.
uint digit_from(float estimate) {
    precise float shifted = (estimate - 0.5) + 12582912.0; // 1.5 * 2^23
    return floatBitsToUint(shifted) - 0x4b400000u;
}

// Four digits of 16 bits, from the top; each from the product of what is left, as a float, and the inverse of the divisor.
// That inverse is made 2^-19 too small, more than all errors together, so that a digit is never too large; what it lacks
// (less than 0.2, beside the fraction that is dropped) goes into the next one, and the last can lack one. 135 operations.
Division_u64 division_u64(uvec2 a, uvec2 b) {
    bool by_zero = (b.x | b.y) == 0u;
    uvec2 divisor = uvec2(b.x | uint(by_zero), b.y);
    precise float inverse = reciprocal_estimate(float_from_u64(divisor)) * 0.999998093; // 1 - 2^-19
    uvec2 rest = a;

    precise float estimate = (float(int(rest.y >> 8)) * 0.00390625) * inverse; // 2^40 / 2^48
    uint digit_3 = digit_from(estimate);
    rest.y -= (digit_3 * divisor.x) << 16;

    precise float scaled_inverse = inverse * 0.00000000023283064365386962890625; // 2^-32
    estimate = float_from_u64(rest) * scaled_inverse;
    uint digit_2 = digit_from(estimate);
    rest.y -= digit_2 * divisor.x;

    scaled_inverse = inverse * 0.0000152587890625; // 2^-16
    estimate = float_from_u64(rest) * scaled_inverse;
    uint digit_1 = digit_from(estimate);
    uvec2 product = multiply_u64(uvec2(digit_1, 0u), divisor);
    rest = subtract_u64(rest, uvec2(product.x << 16, (product.y << 16) | (product.x >> 16)));

    estimate = float_from_u64(rest) * inverse;
    uint digit_0 = digit_from(estimate);
    rest = subtract_u64(rest, multiply_u64(uvec2(digit_0, 0u), divisor));

    uvec2 lacking = subtract_u64(rest, divisor);
    bool lacks = rest.y == divisor.y ? rest.x >= divisor.x : rest.y > divisor.y;
    rest = lacks ? lacking : rest;
    uvec2 quotient = uvec2(digit_1 << 16, (digit_3 << 16) + digit_2 + (digit_1 >> 16));
    quotient = add_u64(quotient, uvec2(digit_0 + uint(lacks), 0u));
    return Division_u64(by_zero ? uvec2(0u) : quotient, by_zero ? uvec2(0u) : rest);
}

uvec2 divide_u64(uvec2 a, uvec2 b) { return division_u64(a, b).quotient; }
uvec2 modulus_truncate_u64(uvec2 a, uvec2 b) { return division_u64(a, b).remainder; }
uvec2 modulus_floor_u64(uvec2 a, uvec2 b) { return modulus_truncate_u64(a, b); }

uvec2 divide_i64(uvec2 a, uvec2 b) {
    uvec2 quotient = divide_u64(absolute_i64(a), absolute_i64(b));
    return int(a.y ^ b.y) < 0 ? negated_i64(quotient) : quotient;
}
uvec2 modulus_truncate_i64(uvec2 a, uvec2 b) {
    uvec2 remainder = modulus_truncate_u64(absolute_i64(a), absolute_i64(b));
    return int(a.y) < 0 ? negated_i64(remainder) : remainder;
}
uvec2 modulus_floor_i64(uvec2 a, uvec2 b) {
    uvec2 remainder = modulus_truncate_i64(a, b);
    bool adjust = (remainder.x | remainder.y) != 0u && int(a.y ^ b.y) < 0;
    return adjust ? add_u64(remainder, b) : remainder;
}

#endif
