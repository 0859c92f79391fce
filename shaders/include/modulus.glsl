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

// a * 2^count modulo b, for significands of 24 bits (2^23 <= a, b < 2^24) and 0 <= count < 254: 21 bits a turn, so 13 turns
// at most and one for numbers of like size. The quotient of a turn, rounded to nearest, is off by less than 0.34 before
// it is rounded, and what is left is then between -b and b: it is exact modulo 2^32. 14 operations, and 17 a turn.
int significand_remainder(uint a, uint b, int count)
{
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
uint magnitude_from(int multiple, int field)
{
    int bits = floatBitsToInt(float(multiple)) + ((field - 150) << 23);
    return multiple == 0 || bits < int(SMALLEST_NORMAL_F32) ? 0u : uint(bits);
}

// NaN, an infinite dividend or a zero divisor.
bool has_no_remainder_f32(uint a, uint b)
{
    return int(a & MAGNITUDE_F32) >= int(INFINITY_F32) || int(b & MAGNITUDE_F32) > int(INFINITY_F32)
        || (b & INFINITY_F32) == 0u;
}

// About 50 operations, and 17 for each turn.
uint modulus_truncate_f32(uint a, uint b)
{
    int field_a = int((a >> 23) & 0xffu);
    int field_b = int((b >> 23) & 0xffu);
    uint significand_a = (a & 0x7fffffu) | SMALLEST_NORMAL_F32;
    uint significand_b = (b & 0x7fffffu) | SMALLEST_NORMAL_F32;
    bool is_invalid = has_no_remainder_f32(a, b);
    int count = is_invalid ? -1 : field_a - field_b;
    uint magnitude = magnitude_from(significand_remainder(significand_a, significand_b, count), field_b);
    uint remainder = count < 0 ? without_denormal(a) : (a & SIGN_F32) | magnitude;
    return is_invalid ? NAN_F32 : remainder;
}
FLOAT16_FORM_2(modulus_truncate)

// About 70 operations, and 17 for each turn. Where the signs differ, b is added: as integers in units of the divisor's last
// place, exactly, or where a is below b as floats, which rounds once.
uint modulus_floor_f32(uint a, uint b)
{
    int field_a = int((a >> 23) & 0xffu);
    int field_b = int((b >> 23) & 0xffu);
    uint significand_a = (a & 0x7fffffu) | SMALLEST_NORMAL_F32;
    uint significand_b = (b & 0x7fffffu) | SMALLEST_NORMAL_F32;
    bool is_invalid = has_no_remainder_f32(a, b);
    int count = is_invalid ? -1 : field_a - field_b;
    bool signs_differ = int(a ^ b) < 0;
    int rest = significand_remainder(significand_a, significand_b, count);
    rest = signs_differ && rest != 0 ? int(significand_b) - rest : rest;
    precise float total = as_float32(a) + as_float32(b);
    uint of_smaller = signs_differ && field_a != 0 ? as_result(total) : without_denormal(a);
    uint magnitude = count < 0 ? of_smaller & MAGNITUDE_F32 : magnitude_from(rest, field_b);
    return is_invalid ? NAN_F32 : (b & SIGN_F32) | magnitude;
}
FLOAT16_FORM_2(modulus_floor)

#endif
