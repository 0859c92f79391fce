// Remainders of floats, exact for all pairs. FLOAT32 denormals count as zeros of their sign, in operands and in results;
// FLOAT16 denormals are the numbers they are.
//
//   modulus_truncate     a less the multiple of b that is nearest toward zero: C's fmod; zero, or of the sign of a
//   modulus_floor        a less the multiple of b that is nearest below: Python's %; zero or not, of the sign of b
//
// NaN where a is infinite or b is zero. Where b is infinite and a is finite, the truncated remainder is a; so is the other
// one if the signs are equal, or else it is b (zero for zero).
#ifndef MODULUS_GLSL
#define MODULUS_GLSL

#include "division.glsl"

// a * 2^count modulo b, for significands of 24 bits (2^23 <= a, b < 2^24) and 0 <= count < 254: 21 bits an iteration, so 13 iterations
// at most and one for numbers of like size. The quotient of an iteration, rounded to nearest, is off by less than 0.34 before
// it is rounded, and what is left is then between -b and b: it is exact modulo 2^32. 14 operations, and 17 an iteration.
int significand_remainder(uint a, uint b, int count) {
    int divisor = int(b);
    precise float inverse = significand_reciprocal(uintBitsToFloat(b | ONE_F32));
    int rest = int(a) < divisor ? int(a) : int(a) - divisor;
    while (count > 0) {
        int step = min(count, 21);
        precise float ratio = (float(rest) * inverse) * power_of_two(step - 23);
        precise float shifted = ratio + 12582912.0; // 1.5 * 2^23
        uint quotient = floatBitsToUint(shifted) - 0x4b400000u;
        rest = int((uint(rest) << uint(step)) - quotient * b);
        rest += rest < 0 ? divisor : 0;
        count -= step;
    }
    return rest;
}

// The magnitude of multiple * 2^(field - 150), a denormal as zero, for 0 <= multiple < 2^24.
uint magnitude_from(int multiple, int field) {
    int bits = floatBitsToInt(float(multiple)) + ((field - 150) << 23);
    return multiple == 0 || bits < int(SMALLEST_NORMAL_F32) ? 0u : uint(bits);
}

// NaN, an infinite dividend or a zero divisor.
bool has_no_remainder_f32(uint a, uint b) {
    return int(a & MAGNITUDE_F32) >= int(INFINITY_F32) || int(b & MAGNITUDE_F32) > int(INFINITY_F32)
        || (b & INFINITY_F32) == 0u;
}

// a modulo b for positive numbers whose ratio is below 2^10, and for a = 0: as a less quotient times b, the quotient being off by
// less than 0.503. Where a is not below b, all are multiples of b's last place, and have few enough of them to be exact: b's
// first 12 bits times the quotient, what that leaves of a, which is below 0.76 * 2^24 places, and b's other bits times the
// quotient. 10 operations.
float remainder_of_ordinary(float a, float b, float ratio) {
    precise float quotient = (ratio + 12582912.0) - 12582912.0; // 1.5 * 2^23
    precise float head = leading_half(b);
    precise float tail = b - head;
    precise float rest = exact_product_plus(-quotient, tail, exact_product_plus(-quotient, head, a));
    precise float above = rest + b;
    rest = floatBitsToInt(rest) < 0 ? above : rest;
    return floatBitsToInt(a) < floatBitsToInt(b) ? a : rest;
}

// Whether that holds: b is between 2^-60 and 2^100, and a neither denormal nor as large as 2^10 * b.
bool are_ordinary(uint a, uint b, float ratio) {
    bool b_is_ordinary = int(b) >= 0x21800000 && int(b) < 0x71800000;
    bool a_is_ordinary = int(a) >= int(SMALLEST_NORMAL_F32) || a == 0u;
    return b_is_ordinary && a_is_ordinary && floatBitsToInt(ratio) < 0x44800000;
}

// Of any other pairs; the results keep a's sign, or where `is_floor` b's. About 60 operations, and 17 for each iteration.
//
// Where the signs differ, b is added: as integers in units of the divisor's last place, exactly, or where a is below b as floats,
// which rounds once.
uint slow_path_modulus_f32(uint a, uint b, bool is_floor) {
    int field_a = int((a >> 23) & 0xffu);
    int field_b = int((b >> 23) & 0xffu);
    uint significand_a = (a & 0x7fffffu) | SMALLEST_NORMAL_F32;
    uint significand_b = (b & 0x7fffffu) | SMALLEST_NORMAL_F32;
    bool is_invalid = has_no_remainder_f32(a, b);
    int count = is_invalid ? -1 : field_a - field_b;
    bool is_added = is_floor && int(a ^ b) < 0;
    int rest = significand_remainder(significand_a, significand_b, count);
    rest = is_added && rest != 0 ? int(significand_b) - rest : rest;
    precise float total = as_float32(a) + as_float32(b);
    uint of_smaller = is_added && field_a != 0 ? as_result(total) : without_denormal(a);
    uint magnitude = count < 0 ? of_smaller & MAGNITUDE_F32 : magnitude_from(rest, field_b);
    return is_invalid ? NAN_F32 : ((is_floor ? b : a) & SIGN_F32) | magnitude;
}

// 28 operations for ordinary pairs.
uint modulus_truncate_f32(uint a, uint b) {
    uint dividend = a & MAGNITUDE_F32;
    uint divisor = b & MAGNITUDE_F32;
    precise float ratio = uintBitsToFloat(dividend) * quick_inverse(uintBitsToFloat(divisor));
    float rest = remainder_of_ordinary(uintBitsToFloat(dividend), uintBitsToFloat(divisor), ratio);
    uint result = floatBitsToUint(rest) | (a & SIGN_F32);
    if (!are_ordinary(dividend, divisor, ratio)) { result = slow_path_modulus_f32(a, b, false); }
    return result;
}

// 33 operations for ordinary pairs.
uint modulus_floor_f32(uint a, uint b) {
    uint dividend = a & MAGNITUDE_F32;
    uint divisor = b & MAGNITUDE_F32;
    precise float ratio = uintBitsToFloat(dividend) * quick_inverse(uintBitsToFloat(divisor));
    float rest = remainder_of_ordinary(uintBitsToFloat(dividend), uintBitsToFloat(divisor), ratio);
    precise float complement = uintBitsToFloat(divisor) - rest;
    bool is_added = int(a ^ b) < 0 && floatBitsToUint(rest) != 0u;
    uint result = (is_added ? floatBitsToUint(complement) : floatBitsToUint(rest)) | (b & SIGN_F32);
    if (!are_ordinary(dividend, divisor, ratio)) { result = slow_path_modulus_f32(a, b, true); }
    return result;
}

// a modulo b for float16 values, a not negative and finite, b positive: all numbers in it are multiples of the smaller one's last
// place, of which they have few enough for float32 to be exact. A quotient, off by less than 2^-19 of itself and rounded to
// nearest, has up to 12 bits; a larger one takes another iteration for each 12 bits, three at most. What is left lies between
// -b / 2 and b / 2, or next to that: b is added to what is negative. 14 operations, and 11 for each iteration that is needed.
float remainder_f16(float a, float b) {
    float inverse = quick_inverse(b);
    precise float rest = a;
    precise float ratio = a * inverse;
    while (int(floatBitsToUint(ratio) & MAGNITUDE_F32) >= 0x45800000) { // 4096
        int exponent = int((floatBitsToUint(ratio) >> 23) & 0xffu) - 138; // leaves 12 bits
        precise float scaled_b = b * power_of_two(exponent);
        precise float whole_multiple = (ratio * power_of_two(-exponent) + 12582912.0) - 12582912.0; // 1.5 * 2^23
        rest = exact_product_plus(-whole_multiple, scaled_b, rest);
        ratio = rest * inverse;
    }
    precise float quotient = (ratio + 12582912.0) - 12582912.0;
    rest = exact_product_plus(-quotient, b, rest);
    precise float above = rest + b;
    return floatBitsToInt(rest) < 0 ? above : rest;
}

// The value of a magnitude's bits.
float as_magnitude_f16(int magnitude) { return uintBitsToFloat(float32_from_float16(uint(magnitude))); }

// Rounded to nearest even, for 0 <= value < 2^16: float16_from_float32 without signs, infinities and NaN. 7 operations.
uint float16_from_remainder(float value) {
    int bits = floatBitsToInt(value);
    int exponent = max(bits, 0x38800000) >> 23;
    int large = exponent * 0x800000 + 0x6800000;
    precise float total = value + intBitsToFloat(large);
    return uint(exponent * (0x400 - 0x800000) + floatBitsToInt(total) - (0x6800000 + 0x1c400));
}

// Whether a is finite and b is neither zero nor infinite, and none of them NaN: magnitudes' bits.
bool has_remainder_f16(int a, int b) { return a < int(INFINITY_F16) && uint(b - 1) < INFINITY_F16 - 1u; }

// For other pairs: NaN, or where b is infinite and a is not, what is left of a.
uint special_remainder_f16(int a, int b, uint remainder) {
    return a < int(INFINITY_F16) && b == int(INFINITY_F16) ? remainder : NAN_F16;
}

// About 44 operations, and 11 for each iteration.
uint modulus_truncate_f16(uint a, uint b) {
    int magnitude_a = int(a & 0x7fffu);
    int magnitude_b = int(b & 0x7fffu);
    uint result;
    if (has_remainder_f16(magnitude_a, magnitude_b)) {
        float rest = remainder_f16(as_magnitude_f16(magnitude_a), as_magnitude_f16(magnitude_b));
        result = float16_from_remainder(rest) | (a & 0x8000u);
    } else {
        result = special_remainder_f16(magnitude_a, magnitude_b, a);
    }
    return result;
}

// About 49 operations, and 11 for each iteration. Where the signs differ, b is added; rounded to 24 bits first, which does no harm to a
// sum (float16.glsl).
uint modulus_floor_f16(uint a, uint b) {
    int magnitude_a = int(a & 0x7fffu);
    int magnitude_b = int(b & 0x7fffu);
    bool signs_differ = ((a ^ b) & 0x8000u) != 0u;
    uint result;
    if (has_remainder_f16(magnitude_a, magnitude_b)) {
        float divisor = as_magnitude_f16(magnitude_b);
        float rest = remainder_f16(as_magnitude_f16(magnitude_a), divisor);
        precise float complement = divisor - rest;
        bool is_added = signs_differ && floatBitsToInt(rest) != 0;
        float least = is_added ? complement : rest;
        result = float16_from_remainder(least) | (b & 0x8000u);
    } else {
        uint infinite = signs_differ && magnitude_a != 0 ? INFINITY_F16 : uint(magnitude_a);
        result = special_remainder_f16(magnitude_a, magnitude_b, infinite | (b & 0x8000u));
    }
    return result;
}

#endif
