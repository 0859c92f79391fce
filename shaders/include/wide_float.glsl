// FLOAT32 from the wide numbers of scale_bias.glsl.
#ifndef WIDE_FLOAT_GLSL
#define WIDE_FLOAT_GLSL

#include "scale_bias.glsl"

// Rounded to nearest even; or, where it is going to be rounded again, to odd: cut, with the last bit set when anything was cut
// off. Below 2^-126 after rounding it is zero of its sign.
uint float32_from_wide(WideNumber a, bool to_odd) {
    uint sign = a.sign << 31;
    if (a.kind == NOT_A_NUMBER) { return 0x7fc00000u; }
    if (a.kind == INFINITE) { return sign | 0x7f800000u; }
    if (is_zero(a.magnitude)) { return sign; }
    int highest = highest_bit(a.magnitude);
    int exponent = highest + a.exponent;
    // 24 bits of a significand, 6 that are cut off, and one that stands for all others.
    Wide moved = highest > 30 ? shift_right_jamming(a.magnitude, uint(highest - 30)) : shift_left(a.magnitude, uint(30 - highest));
    uint significand = moved.low >> 7;
    uint rest = moved.low & 0x7fu;
    if (to_odd) {
        significand |= uint(rest != 0u);
    } else {
        significand += uint(rest > 0x40u || (rest == 0x40u && (significand & 1u) != 0u));
    }
    if (exponent > 127) { return sign | 0x7f800000u; }
    if (exponent < -127 || (exponent == -127 && significand < 0x1000000u)) { return sign; }
    return sign | ((uint(exponent + 126) << 23) + significand); // the significand's leading bit adds one
}

#endif
