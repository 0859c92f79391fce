// x * scale + bias of floats, computed exactly and rounded once: what a fused multiply-add would give, which no device
// promises. FLOAT32 denormals count as zeros of their sign, in operands and in results (below 2^-126 after rounding to 24
// bits); FLOAT16 denormals are the numbers they are. Scale and bias are float32 for both.
//
// The product in two words, exactly, and the bias are added as S. Boldo and G. Melquiond do («Emulation of a FMA and correctly
// rounded sums: proved algorithms using rounding to odd», 2008). Where scale and bias are moderate and x is not huge, no step
// can overflow or lose a bit. Otherwise the significands take the operands' places, with the bias at the right distance from
// the product. Where the bias is more than 2^70 times as large as the product, or as small, it is moved to that distance: on
// either side of a tie it stays where it is.
#ifndef AFFINE_GLSL
#define AFFINE_GLSL

#include "float16.glsl"
#include "float32.glsl"
#include "rounding_to_odd.glsl"

// number * factor + addend, times 2^exponent. When an operand is infinite or NaN, so is the sum. A sum of zero has the sign
// bit `sign_of_zero`.
struct Affine {
    float number, factor, addend;
    int exponent;
    bool is_special;
    uint sign_of_zero;
};

int field_of(uint x) { return int((x >> 23) & 0xffu); }

// The significand, from 1 up to 2, with the sign of x; zeros, infinities and NaN as they are.
float significand_of(uint x) {
    int field = field_of(x);
    uint number = (x & 0x807fffffu) | ONE_F32;
    return uintBitsToFloat(field == 0 ? x & SIGN_F32 : field == 255 ? x : number);
}

// x * scale + bias with exponents apart, for operands of any size. 36 operations.
Affine affine(uint x, uint scale, uint bias) {
    int field_x = field_of(x);
    int field_scale = field_of(scale);
    int field_bias = field_of(bias);
    int of_product = field_x != 0 && field_scale != 0 ? field_x + field_scale - 254 : -2000;
    int of_bias = field_bias != 0 ? field_bias - 127 : -1000;
    int exponent = max(of_product, of_bias - 70);
    int distance = max(of_bias - exponent, -70);
    uint addend_bits = (bias & 0x807fffffu) | (uint(127 + distance) << 23);
    addend_bits = field_bias == 0 ? bias & SIGN_F32 : field_bias == 255 ? bias : addend_bits;
    bool is_special = max(max(field_x, field_scale), field_bias) == 255;
    return Affine(significand_of(x), significand_of(scale), uintBitsToFloat(addend_bits), exponent, is_special,
        (x ^ scale) & bias & SIGN_F32);
}

// Whether x * scale + bias may be computed as it stands: 2^-40 <= |scale| < 2^24, 2^-40 <= |bias| < 2^40, |x| < 2^80. Beside
// such a bias a product below 2^-78, whose second word may be denormal, is too small to matter.
bool is_plain(uint x, uint scale, uint bias) {
    int factor = int(scale & MAGNITUDE_F32);
    int addend = int(bias & MAGNITUDE_F32);
    return factor >= 0x2b800000 && factor < 0x4b800000 && addend >= 0x2b800000 && addend < 0x53800000
        && int(x & MAGNITUDE_F32) < 0x67800000;
}

// number * factor + addend = high + (middle + low), exactly; middle and low are at most an ulp of high or so, and one of them
// is 0 where high has lost leading bits. 19 operations.
struct AffineSum {
    float high, middle, low;
};
AffineSum affine_sum(float number, float factor, float addend) {
    Double product = two_product(number, factor);
    Double sum = two_sum(product.high, addend);
    return AffineSum(sum.high, sum.low, product.low);
}

// The same in two words, the first one rounded to nearest but for what the second one's rounding, of 2^-46, may change.
Double affine_words(AffineSum sum) {
    precise float rest = sum.middle + sum.low;
    return fast_two_sum(sum.high, rest);
}

// middle + low rounded to odd: then rounding high + that rounds the exact sum.
float rest_to_odd(AffineSum sum) { return uintBitsToFloat(rounded_to_odd(two_sum(sum.middle, sum.low))); }

// Rounded to nearest: by the two words, if the second one is not so near half a place of the first that its own rounding, up
// to 2^-21 of it, matters (the test of A. Ziv, «Fast evaluation of elementary mathematical functions with correctly rounded
// last bit», 1991). Where the product was exact, as with a scale of few bits, there is no such rounding; and there ties are
// frequent.
bool is_undecided_sum(AffineSum sum, Double words) {
    precise float check = words.high + words.low * 1.00000095;
    bool was_exact = (floatBitsToUint(sum.low) & MAGNITUDE_F32) == 0u;
    return !was_exact && floatBitsToInt(check) != floatBitsToInt(words.high);
}
float rounded_affine(AffineSum sum) {
    Double words = affine_words(sum);
    precise float result = words.high;
    if (is_undecided_sum(sum, words)) { result = sum.high + rest_to_odd(sum); }
    return result;
}

// The bits of a significand that was rounded, with its exponent: denormals are zeros, overflow is an infinity.
uint with_exponent(uint significand, Affine value) {
    int magnitude = int(significand & MAGNITUDE_F32);
    int field = (magnitude >> 23) + value.exponent;
    uint sign = magnitude == 0 ? value.sign_of_zero : significand & SIGN_F32;
    uint finite = field <= 0 || magnitude == 0 ? 0u : uint(magnitude) + (uint(value.exponent) << 23);
    uint number = sign | (field >= 255 && magnitude != 0 ? INFINITY_F32 : finite);
    precise float special = value.number * value.factor + value.addend;
    uint special_bits = floatBitsToUint(special);
    special_bits = int(special_bits & MAGNITUDE_F32) > int(INFINITY_F32) ? NAN_F32 : special_bits;
    return value.is_special ? special_bits : number;
}

// 26 operations where the operands are plain.
uint affine_f32(uint x, uint scale, uint bias) {
    precise float number = uintBitsToFloat(x);
    precise float factor = uintBitsToFloat(scale);
    precise float addend = uintBitsToFloat(bias);
    bool is_ordinary = is_plain(x, scale, bias);
    if (!is_ordinary) {
        Affine value = affine(x, scale, bias);
        number = value.number;
        factor = value.factor;
        addend = value.addend;
    }
    uint rounded = floatBitsToUint(rounded_affine(affine_sum(number, factor, addend)));
    if (!is_ordinary) { rounded = with_exponent(rounded, affine(x, scale, bias)); }
    return rounded;
}

// The same for plain operands, and for a bias of zero beside a plain scale, where the product alone is rounded
// (FAST_PATH_OPERATION, elementwise_contiguous.glsl).
uint ordinary_affine_f32(uint x, uint scale, uint bias, out bool needs_slow_path) {
    uint magnitude = x & MAGNITUDE_F32;
    precise float number = uintBitsToFloat(x);
    precise float product = number * uintBitsToFloat(scale) + uintBitsToFloat(bias);
    AffineSum sum = affine_sum(number, uintBitsToFloat(scale), uintBitsToFloat(bias));
    Double words = affine_words(sum);
    bool is_product = (bias & MAGNITUDE_F32) == 0u;
    bool is_denormal = is_product && magnitude < 0x17800000u && magnitude != 0u; // 2^-80
    needs_slow_path = !is_plain(x, scale, is_product ? ONE_F32 : bias) || is_denormal || (!is_product && is_undecided_sum(sum, words));
    return floatBitsToUint(is_product ? product : words.high);
}

// Rounded to odd first, so that rounding to float16 is the only rounding to nearest.
uint affine_f16(uint x, uint scale, uint bias) {
    Affine value = affine(float32_from_float16(x), scale, bias);
    AffineSum sum = affine_sum(value.number, value.factor, value.addend);
    uint odd = rounded_to_odd(fast_two_sum(sum.high, rest_to_odd(sum)));
    return float16_from_float32(with_exponent(odd, value));
}

#endif
