// ACTIVATION_SHRINK: x - bias if x > threshold, x + bias if x < -threshold, otherwise 0. Bias and threshold are float32 for
// all data types, their denormals count as zeros; a threshold that is NaN gives 0.
//
// Floats: the sum is rounded once; FLOAT32 denormals count as zeros of their sign; NaN gives the canonical NaN.
// Integers are compared and moved as exact numbers; the result is truncated toward zero and saturated, 0 for a bias of NaN.
#ifndef SHRINK_GLSL
#define SHRINK_GLSL

#include "arithmetic.glsl"
#include "comparison.glsl"
#include "negation.glsl"
#include "scale_bias.glsl"

// Which of the three it is: the sign bit that changes the bias, or this.
#define SHRINKS_TO_ZERO 3u

uint shrink_sign_f32(uint x, uint threshold) {
    int number = signed_magnitude(without_denormal(x));
    int bound = signed_magnitude(without_denormal(threshold));
    bool is_ordered = no_nan_f32(x, threshold);
    uint below = number < -bound ? 0u : SHRINKS_TO_ZERO;
    return is_ordered ? (number > bound ? SIGN_F32 : below) : SHRINKS_TO_ZERO;
}
uint shrink_f32(uint x, uint bias, uint threshold) {
    uint sign = shrink_sign_f32(x, threshold);
    uint moved = sign == SHRINKS_TO_ZERO ? 0u : add_f32(x, bias ^ sign);
    return is_nan_f32(x) ? NAN_F32 : moved;
}
// The bias is any float32, so that a sum's rounding to float32 could be seen in float16: it is rounded to odd.
uint shrink_f16(uint x, uint bias, uint threshold) {
    uint number = float32_from_float16(x);
    uint sign = shrink_sign_f32(number, threshold);
    Double total = two_sum(uintBitsToFloat(number), as_float32(bias ^ sign));
    uint high = floatBitsToUint(total.high);
    bool is_finite = int(high & MAGNITUDE_F32) < int(INFINITY_F32);
    uint moved = float16_from_float32(is_finite ? rounded_to_odd(total) : high);
    return is_nan_f16(x) ? NAN_F16 : sign == SHRINKS_TO_ZERO ? 0u : moved;
}

// The integers next to a float32, from -2^30 to 2^30; beyond, these. Of NaN, of which nobody asks, some number.
struct Neighbours {
    int below, above;
};
Neighbours neighbours_of(uint number) {
    int exponent = field_of(number) - 127;
    uint significand = (number & 0x7fffffu) | SMALLEST_NORMAL_F32;
    uint right = uint(min(max(23 - exponent, 0), 24));
    uint left = uint(min(max(exponent - 23, 0), 7));
    uint whole = (significand >> right) << left;
    bool has_fraction = field_of(number) != 0 && ((significand >> right) << right) != significand;
    int magnitude = exponent >= 30 ? 1 << 30 : int(whole);
    int further = magnitude + int(has_fraction);
    return int(number) < 0 ? Neighbours(-further, -magnitude) : Neighbours(magnitude, further);
}
Neighbours negated(Neighbours a) { return Neighbours(-a.above, -a.below); }

// Beyond a threshold lies what lies beyond the integer below it; and x + bias is truncated to x plus one of the bias's neighbours, by
// MOVED. What is computed from attributes alone is the same for all elements. 4 operations beside it and MOVED.
#define SHRUNK_BY(NAME, MOVED) \
    int NAME(int x, uint bias, uint threshold) { \
        int bound = neighbours_of(threshold).below; \
        Neighbours by = neighbours_of(bias); \
        int below = x < -bound ? MOVED(x, by) : 0; \
        return x > bound ? MOVED(x, negated(by)) : below; \
    }

// Integers of 8 and 16 bits.
int moved_short(int x, Neighbours by) {
    int lower = x + by.below;
    return lower >= 0 ? lower : x + by.above;
}
SHRUNK_BY(shrunk_short, moved_short)
uint shrink_short(int x, uint bias, uint threshold, int lowest, int highest) {
    int bounded = min(max(shrunk_short(x, bias, threshold), lowest), highest);
    return is_nan_f32(bias) || is_nan_f32(threshold) ? 0u : uint(bounded);
}

// The same for 32 bits, where both attributes are below 2^30. The sums saturate.
bool are_below_2_30(uint bias, uint threshold) {
    return max(int(bias & MAGNITUDE_F32), int(threshold & MAGNITUDE_F32)) < 0x4e800000;
}
int saturated_sum(int x, int addend) {
    return min(max(x, int(0x80000000u) - min(addend, 0)), 0x7fffffff - max(addend, 0)) + addend;
}
int moved_i32(int x, Neighbours by) {
    int lower = saturated_sum(x, by.below);
    return lower >= 0 ? lower : saturated_sum(x, by.above);
}
SHRUNK_BY(shrunk_i32, moved_i32)
uint quick_shrink_i32(uint x, uint bias, uint threshold) { return uint(shrunk_i32(int(x), bias, threshold)); }

// A sum below zero saturates to zero, whatever it is truncated to.
uint moved_u32(uint x, Neighbours by) {
    return min(max(x, uint(max(-by.below, 0))), 0xffffffffu - uint(max(by.below, 0))) + uint(by.below);
}
uint quick_shrink_u32(uint x, uint bias, uint threshold) {
    int bound = neighbours_of(threshold).below;
    Neighbours by = neighbours_of(bias);
    uint below = x < uint(max(-bound, 0)) ? moved_u32(x, by) : 0u;
    return bound < 0 || x > uint(max(bound, 0)) ? moved_u32(x, negated(by)) : below;
}

// An integer's magnitude compared with that of a float32, NaN excepted: -1, 0 or 1.
int compared_with_float(uint magnitude, uint number) {
    int exponent = field_of(number) - 127;
    uint significand = (number & 0x7fffffu) | SMALLEST_NORMAL_F32;
    uint right = uint(min(max(23 - exponent, 0), 24));
    uint left = uint(min(max(exponent - 23, 0), 8));
    uint whole = (significand >> right) << left;
    bool has_fraction = field_of(number) != 0 && ((significand >> right) << right) != significand;
    int of_equal = has_fraction ? -1 : 0;
    int order = magnitude == whole ? of_equal : magnitude > whole ? 1 : -1;
    return exponent >= 32 ? -1 : order;
}

// As shrink_sign_f32 is for floats.
uint shrink_sign_of_integer(uint magnitude, bool is_negative, uint threshold) {
    int order = compared_with_float(magnitude, threshold);
    bool has_positive_bound = (without_denormal(threshold) & MAGNITUDE_F32) == 0u || int(threshold) >= 0;
    // Beyond a positive bound lies what is larger in magnitude and of that side's sign. Beyond a negative one lies zero, the
    // whole of that side, and of the other side what is smaller in magnitude.
    bool is_above = has_positive_bound ? !is_negative && order > 0 : !is_negative || order < 0;
    bool is_below = has_positive_bound ? is_negative && order > 0 : true;
    uint sign = is_above ? SIGN_F32 : is_below ? 0u : SHRINKS_TO_ZERO;
    return is_nan_f32(threshold) ? SHRINKS_TO_ZERO : sign;
}
uint shrink_sign_i32(uint x, uint threshold) { return shrink_sign_of_integer(absolute_i32(x), int(x) < 0, threshold); }
uint shrink_sign_u32(uint x, uint threshold) { return shrink_sign_of_integer(x, false, threshold); }

uint shrink_float32(uint x, uint bias, uint threshold) { return shrink_f32(x, bias, threshold); }
uint shrink_float16(uint x, uint bias, uint threshold) { return shrink_f16(x, bias, threshold); }

#define SHRINK_OF_32_BITS(type, form) \
    uint shrink_##type(uint x, uint bias, uint threshold) { \
        uint result; \
        if (are_below_2_30(bias, threshold)) { \
            result = quick_shrink_##form(x, bias, threshold); \
        } else { \
            uint sign = shrink_sign_##form(x, threshold); \
            result = sign == SHRINKS_TO_ZERO ? 0u : scale_bias_##type(x, ONE_F32, bias ^ sign); \
        } \
        return result; \
    }
SHRINK_OF_32_BITS(int32, i32)
SHRINK_OF_32_BITS(uint32, u32)

uint shrink_int16(uint x, uint bias, uint threshold) { return shrink_short(int(x), bias, threshold, -0x8000, 0x7fff); }
uint shrink_int8(uint x, uint bias, uint threshold) { return shrink_short(int(x), bias, threshold, -0x80, 0x7f); }
uint shrink_uint16(uint x, uint bias, uint threshold) { return shrink_short(int(x), bias, threshold, 0, 0xffff); }
uint shrink_uint8(uint x, uint bias, uint threshold) { return shrink_short(int(x), bias, threshold, 0, 0xff); }

#endif
