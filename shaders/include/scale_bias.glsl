// x * scale + bias (DML_SCALE_BIAS), computed exactly and converted once to the data type of x: to nearest even for
// floats (affine.glsl), toward zero and saturating for integers. float32 denormals count as zero in scale and bias.
//
// The method for integers is that of a fused multiply-add in integer arithmetic (J.-M. Muller et al., Handbook of
// Floating-Point Arithmetic, chapter on software implementation): the 56-bit product and the addend meet in a 96-bit window.
#ifndef SCALE_BIAS_GLSL
#define SCALE_BIAS_GLSL

#include "affine.glsl"
#include "wide.glsl"

#define FINITE 0u
#define INFINITE 1u
#define NOT_A_NUMBER 2u

// (-1)^sign * magnitude * 2^exponent, where kind is FINITE.
struct Number {
    uint kind, sign, magnitude;
    int exponent;
};

// The same with a wide magnitude.
struct WideNumber {
    uint kind, sign;
    Wide magnitude;
    int exponent;
};

uint kind_of_float(bool is_special, uint fraction) {
    return is_special ? (fraction == 0u ? INFINITE : NOT_A_NUMBER) : FINITE;
}

Number number_from_float32(uint x) {
    uint exponent = (x >> 23) & 0xffu;
    uint fraction = x & 0x7fffffu;
    uint magnitude = exponent == 0u ? 0u : fraction | 0x800000u;
    return Number(kind_of_float(exponent == 0xffu, fraction), x >> 31, magnitude, int(exponent) - 150);
}

Number number_from_signed(uint x) {
    uint sign = x >> 31;
    return Number(FINITE, sign, sign != 0u ? ~x + 1u : x, 0);
}

Number number_from_unsigned(uint x) { return Number(FINITE, 0u, x, 0); }

// Puts the highest bit at position 93, which leaves two bits for the carry of a sum.
WideNumber normalized(uint sign, Wide magnitude, int exponent) {
    int highest = highest_bit(magnitude);
    if (highest < 0) {
        return WideNumber(FINITE, sign, magnitude, -100000); // zero: below every other number
    }
    int count = 93 - highest;
    return WideNumber(FINITE, sign, shift_left(magnitude, uint(count)), exponent - count);
}

WideNumber special(uint kind, uint sign) { return WideNumber(kind, sign, Wide(0u, 0u, 0u), 0); }

WideNumber sum_of(WideNumber a, WideNumber b) {
    if (a.exponent < b.exponent) {
        WideNumber exchanged = a;
        a = b;
        b = exchanged;
    }
    b.magnitude = shift_right_jamming(b.magnitude, uint(a.exponent - b.exponent));
    if (a.sign == b.sign) { return WideNumber(FINITE, a.sign, add(a.magnitude, b.magnitude), a.exponent); }
    bool exchange = is_below(a.magnitude, b.magnitude);
    Wide difference = exchange ? subtract(b.magnitude, a.magnitude) : subtract(a.magnitude, b.magnitude);
    uint sign = exchange ? b.sign : a.sign;
    return WideNumber(FINITE, is_zero(difference) ? 0u : sign, difference, a.exponent);
}

WideNumber scaled_and_biased(Number x, uint scale_bits, uint bias_bits) {
    Number scale = number_from_float32(scale_bits);
    Number bias = number_from_float32(bias_bits);
    uint sign = x.sign ^ scale.sign;
    bool infinite = x.kind == INFINITE || scale.kind == INFINITE;
    bool invalid = (x.kind == INFINITE && scale.kind == FINITE && scale.magnitude == 0u)
        || (scale.kind == INFINITE && x.kind == FINITE && x.magnitude == 0u)
        || (infinite && bias.kind == INFINITE && sign != bias.sign);
    if (invalid || x.kind == NOT_A_NUMBER || scale.kind == NOT_A_NUMBER || bias.kind == NOT_A_NUMBER) {
        return special(NOT_A_NUMBER, 0u);
    }
    if (infinite) { return special(INFINITE, sign); }
    if (bias.kind == INFINITE) { return special(INFINITE, bias.sign); }
    uint product_high, product_low;
    umulExtended(x.magnitude, scale.magnitude, product_high, product_low);
    WideNumber product = normalized(sign, Wide(0u, product_high, product_low), x.exponent + scale.exponent);
    return sum_of(product, normalized(bias.sign, Wide(0u, 0u, bias.magnitude), bias.exponent));
}

// Truncated toward zero; at most `positive_limit`, and at least minus `negative_limit`. NaN gives 0.
uint integer_from(WideNumber a, uint positive_limit, uint negative_limit) {
    uint limit = a.sign != 0u ? negative_limit : positive_limit;
    uint magnitude = limit;
    if (a.kind == NOT_A_NUMBER || (a.kind == FINITE && is_zero(a.magnitude))) { return 0u; }
    if (a.kind == FINITE && highest_bit(a.magnitude) + a.exponent < 32) {
        Wide whole = a.exponent < 0 ? shift_right(a.magnitude, uint(-a.exponent)) : shift_left(a.magnitude, uint(a.exponent));
        magnitude = min(whole.low, limit);
    }
    return a.sign != 0u ? ~magnitude + 1u : magnitude;
}

uint scale_bias_float32(uint x, uint scale, uint bias) { return affine_f32(x, scale, bias); }
uint scale_bias_float16(uint x, uint scale, uint bias) { return affine_f16(x, scale, bias); }
uint scale_bias_int32(uint x, uint scale, uint bias) {
    return integer_from(scaled_and_biased(number_from_signed(x), scale, bias), 0x7fffffffu, 0x80000000u);
}
uint scale_bias_int16(uint x, uint scale, uint bias) {
    return integer_from(scaled_and_biased(number_from_signed(x), scale, bias), 0x7fffu, 0x8000u);
}
uint scale_bias_int8(uint x, uint scale, uint bias) {
    return integer_from(scaled_and_biased(number_from_signed(x), scale, bias), 0x7fu, 0x80u);
}
uint scale_bias_uint32(uint x, uint scale, uint bias) {
    return integer_from(scaled_and_biased(number_from_unsigned(x), scale, bias), 0xffffffffu, 0u);
}
uint scale_bias_uint16(uint x, uint scale, uint bias) {
    return integer_from(scaled_and_biased(number_from_unsigned(x), scale, bias), 0xffffu, 0u);
}
uint scale_bias_uint8(uint x, uint scale, uint bias) {
    return integer_from(scaled_and_biased(number_from_unsigned(x), scale, bias), 0xffu, 0u);
}

#endif
