// Conversions between all data types: integers keep their low bits, floats become integers by truncation toward zero, saturated,
// NaN 0; what is rounded is rounded once, to nearest even. Denormals are numbers, of FLOAT32 too: whatever a device makes of
// them, they are taken apart as integers. Every NaN becomes the canonical quiet one.
#ifndef CASTING_GLSL
#define CASTING_GLSL

#include "float16.glsl"
#include "negation.glsl"
#include "shift.glsl"
#include "signs.glsl"

#define NAN_BITS_F32 0x7fc00000u
#define NAN_BITS_F64 uvec2(0u, 0x7ff80000u)

// A sign and a magnitude, from an integer of 64 bits.
uvec2 magnitude_of_integer(uvec2 x, bool is_signed, out uint sign) {
    sign = is_signed ? x.y & 0x80000000u : 0u;
    return sign != 0u ? negated_i64(x) : x;
}

// Moved up until bit 63 is set; not 0. `distance`: by how many.
uvec2 normalized(uvec2 magnitude, out uint distance) {
    uint top = magnitude.y != 0u ? 32u + uint(findMSB(magnitude.y)) : uint(findMSB(magnitude.x));
    distance = 63u - top;
    return shift_left_u64(magnitude, uvec2(distance, 0u));
}

uint float32_from_magnitude(uvec2 magnitude, uint sign) {
    if ((magnitude.x | magnitude.y) == 0u) { return 0u; }
    uint distance;
    uvec2 bits = normalized(magnitude, distance);
    uint rest = (bits.y << 24) | uint(bits.x != 0u); // of which half is 2^31
    uint significand = bits.y >> 8;
    uint result = ((189u - distance) << 23) + significand; // 126 + 63: the significand's leading bit adds one
    result += uint(rest > 0x80000000u || (rest == 0x80000000u && (significand & 1u) != 0u));
    return sign | result;
}

uvec2 float64_from_magnitude(uvec2 magnitude, uint sign) {
    if ((magnitude.x | magnitude.y) == 0u) { return uvec2(0u); }
    uint distance;
    uvec2 bits = normalized(magnitude, distance);
    uint rest = bits.x & 0x7ffu;
    uint low = (bits.y << 21) | (bits.x >> 11);
    uint high = ((1085u - distance) << 20) + (bits.y >> 11); // 1022 + 63
    uint carry = uint(rest > 0x400u || (rest == 0x400u && (low & 1u) != 0u));
    uint rounded = low + carry;
    high += uint(rounded < carry);
    return uvec2(rounded, sign | high);
}

// Of a FLOAT32 denormal, or 0.
uvec2 float64_denormal(uint fraction, uint sign) {
    if (fraction == 0u) { return uvec2(0u, sign); }
    uint top = uint(findMSB(fraction)); // the number is at least 2^(top - 149)
    uint moved = (fraction << (23u - top)) & 0x7fffffu;
    return uvec2(moved << 29, sign | ((top + 874u) << 20) | (moved >> 3)); // 1023 - 149
}

uvec2 float64_from_float32(uint x) {
    uint sign = x & 0x80000000u;
    uint exponent = (x >> 23) & 0xffu;
    uint fraction = x & 0x7fffffu;
    if (exponent == 255u) { return fraction != 0u ? NAN_BITS_F64 : uvec2(0u, sign | 0x7ff00000u); }
    if (exponent == 0u) { return float64_denormal(fraction, sign); }
    return uvec2(fraction << 29, sign | ((exponent + 896u) << 20) | (fraction >> 3)); // 1023 - 127
}

// Rounded to nearest even; or, where it is going to be rounded again, to odd: cut, with the last bit set when anything was cut
// off.
uint float32_from_float64(uvec2 x, bool to_odd) {
    uint sign = x.y & 0x80000000u;
    int exponent = int((x.y >> 20) & 0x7ffu) - 1023;
    if (exponent == 1024) { return (x.x | (x.y & 0xfffffu)) != 0u ? NAN_BITS_F32 : sign | 0x7f800000u; }
    if (exponent > 127) { return sign | 0x7f800000u; }
    // 24 bits of a significand, 6 that are cut off, and one that stands for all others.
    uint bits = 0x40000000u | ((x.y & 0xfffffu) << 10) | (x.x >> 22) | uint((x.x & 0x3fffffu) != 0u);
    if (exponent == -1023) {
        bits = uint((x.x | (x.y & 0xfffffu)) != 0u); // a denormal, below everything that a FLOAT32 can be
    }
    uint field = 0u;
    if (exponent >= -126) {
        field = uint(exponent + 126) << 23; // the significand's leading bit adds one
    } else {
        uint distance = uint(min(-126 - exponent, 31));
        uint lost = bits & ((1u << distance) - 1u);
        bits = (bits >> distance) | uint(lost != 0u);
    }
    uint significand = bits >> 7;
    uint rest = bits & 0x7fu;
    if (to_odd) { return sign | (field + (significand | uint(rest != 0u))); }
    uint up = uint(rest > 0x40u || (rest == 0x40u && (significand & 1u) != 0u));
    return sign | (field + significand + up);
}

// Correctly rounded by parts of 16 bits, which are exact.
uint float32_from_integer(uint x, bool is_signed) {
    precise float high = is_signed ? float(int(x) >> 16) : float(int(x >> 16));
    precise float low = float(int(x & 0xffffu));
    precise float scaled = high * 65536.0;
    precise float total = scaled + low;
    return floatBitsToUint(total);
}

// An integer of up to 32 bits, sign-extended where it has a sign.
uint integer_from_float32(uint x, uint bits, bool is_signed) {
    uint magnitude = x & 0x7fffffffu;
    bool is_negative = int(x) < 0;
    if (magnitude > 0x7f800000u || magnitude < 0x3f800000u) {
        return 0u; // NaN, and numbers below 1
    }
    uint limit_bits = is_signed ? bits - 1u : bits;
    if (magnitude >= (127u + limit_bits) << 23) {
        uint highest = 0xffffffffu >> (32u - limit_bits);
        return is_negative ? (is_signed ? ~highest : 0u) : highest;
    }
    uint significand = (magnitude & 0x7fffffu) | 0x800000u;
    int distance = int(magnitude >> 23) - 150; // 127 + 23
    uint whole = distance < 0 ? significand >> uint(-distance) : significand << uint(distance);
    return is_negative ? (is_signed ? negated_i32(whole) : 0u) : whole;
}

// A 64-bit integer, or one of `bits` in its low word, from a significand whose unit is 2^exponent.
uvec2 integer_from_significand(uvec2 significand, int exponent, int leading, uint sign, uint bits, bool is_signed) {
    uint limit_bits = is_signed ? bits - 1u : bits;
    if (leading < 0 || (sign != 0u && !is_signed)) { return uvec2(0u); }
    if (uint(leading) >= limit_bits) {
        uvec2 highest = shift_right_u64(uvec2(0xffffffffu), uvec2(64u - limit_bits, 0u));
        return sign != 0u ? ~highest : highest;
    }
    uvec2 magnitude = exponent < 0 ? shift_right_u64(significand, uvec2(uint(-exponent), 0u))
                                   : shift_left_u64(significand, uvec2(uint(exponent), 0u));
    return sign != 0u ? negated_i64(magnitude) : magnitude;
}

uvec2 integer64_from_float32(uint x, bool is_signed) {
    int leading = int((x >> 23) & 0xffu) - 127;
    if ((x & 0x7fffffffu) > 0x7f800000u) { return uvec2(0u); }
    uvec2 significand = uvec2((x & 0x7fffffu) | 0x800000u, 0u);
    return integer_from_significand(significand, leading - 23, leading, x & 0x80000000u, 64u, is_signed);
}

uvec2 integer_from_float64(uvec2 x, uint bits, bool is_signed) {
    int leading = int((x.y >> 20) & 0x7ffu) - 1023;
    if (leading == 1024 && (x.x | (x.y & 0xfffffu)) != 0u) { return uvec2(0u); }
    uvec2 significand = uvec2(x.x, (x.y & 0xfffffu) | 0x100000u);
    return integer_from_significand(significand, leading - 52, leading, x.y & 0x80000000u, bits, is_signed);
}

#endif
