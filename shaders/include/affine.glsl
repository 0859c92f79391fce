// x * scale + bias of floats, computed exactly and rounded once: what a fused multiply-add would give, which no device
// promises. FLOAT32 denormals count as zeros of their sign, in operands and in results (below 2^-126 after rounding to 24
// bits); FLOAT16 denormals are the numbers they are. Scale and bias are float32 for both.
//
// The product's significand, exact in two words, meets the bias at the right distance: no intermediate can overflow or be
// denormal, because the exponents are kept apart. The four words are added as S. Boldo and G. Melquiond do («Emulation of a
// FMA and correctly rounded sums: proved algorithms using rounding to odd», 2008). Where the bias is more than 2^70 times
// as large as the product, or as small, it is moved to that distance: on either side of a tie it stays where it is.
#ifndef AFFINE_GLSL
#define AFFINE_GLSL

#include "float16.glsl"
#include "float32.glsl"
#include "rounding_to_odd.glsl"

// (sum.high + sum.low) * 2^exponent, where sum.low was rounded to odd: rounding the sum rounds the exact value. When an
// operand is infinite or NaN, so is the sum. A sum of zero has the sign bit `sign_of_zero`.
struct Affine {
    Double sum;
    int exponent;
    bool is_special;
    uint sign_of_zero;
};

int field_of(uint x) { return int((x >> 23) & 0xffu); }

// The significand, from 1 up to 2, with the sign of x; zeros, infinities and NaN as they are.
float significand_of(uint x)
{
    int field = field_of(x);
    uint number = (x & 0x807fffffu) | ONE_F32;
    return uintBitsToFloat(field == 0 ? x & SIGN_F32 : field == 255 ? x : number);
}

// 65 operations.
Affine affine(uint x, uint scale, uint bias)
{
    int field_x = field_of(x);
    int field_scale = field_of(scale);
    int field_bias = field_of(bias);
    int of_product = field_x != 0 && field_scale != 0 ? field_x + field_scale - 254 : -2000;
    int of_bias = field_bias != 0 ? field_bias - 127 : -1000;
    int exponent = max(of_product, of_bias - 70);
    int distance = max(of_bias - exponent, -70);
    uint addend_bits = (bias & 0x807fffffu) | (uint(127 + distance) << 23);
    addend_bits = field_bias == 0 ? bias & SIGN_F32 : field_bias == 255 ? bias : addend_bits;
    float addend = uintBitsToFloat(addend_bits);

    Double product = two_product(significand_of(x), significand_of(scale));
    Double lower = two_sum(addend, product.low);
    Double upper = two_sum(product.high, lower.high);
    Double ending = two_sum(lower.low, upper.low);
    precise float special = product.high + addend;

    bool is_special = max(max(field_x, field_scale), field_bias) == 255;
    Double sum = Double(upper.high, uintBitsToFloat(rounded_to_odd(ending)));
    return Affine(is_special ? Double(special, 0.0) : sum, exponent, is_special, (x ^ scale) & bias & SIGN_F32);
}

// The bits of a significand that was rounded, with its exponent: denormals are zeros, overflow is an infinity.
uint with_exponent(uint significand, Affine value)
{
    int magnitude = int(significand & MAGNITUDE_F32);
    int field = (magnitude >> 23) + value.exponent;
    uint sign = magnitude == 0 ? value.sign_of_zero : significand & SIGN_F32;
    uint finite = field <= 0 || magnitude == 0 ? 0u : uint(magnitude) + (uint(value.exponent) << 23);
    uint number = sign | (field >= 255 && magnitude != 0 ? INFINITY_F32 : finite);
    uint special = magnitude > int(INFINITY_F32) ? NAN_F32 : significand;
    return value.is_special ? special : number;
}

// 82 operations.
uint affine_f32(uint x, uint scale, uint bias)
{
    Affine value = affine(x, scale, bias);
    precise float rounded = value.sum.high + value.sum.low;
    return with_exponent(floatBitsToUint(rounded), value);
}

// Rounded to odd first, so that rounding to float16 is the only rounding to nearest.
uint affine_f16(uint x, uint scale, uint bias)
{
    Affine value = affine(float32_from_float16(x), scale, bias);
    uint odd = rounded_to_odd(fast_two_sum(value.sum.high, value.sum.low));
    return float16_from_float32(with_exponent(value.is_special ? floatBitsToUint(value.sum.high) : odd, value));
}

#endif
