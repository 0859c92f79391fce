// Sums of single numbers of any magnitude, in two words: in the three sums of double_sums.glsl, and what is made of them.
#ifndef ANY_SUMS_GLSL
#define ANY_SUMS_GLSL

#include "rounding_to_odd.glsl"
#include "term_sums.glsl"
#include "window_sums.glsl"

Double same_number(Double number) { return number; }
ADD_SLOW_PATH_TERM(add_number_on_slow_path, same_number, LEAST_ORDINARY_TERM, LEAST_LARGE_TERM)

// Adds the number that these bits are.
void add_number(inout TermSum sum, uint bits) {
    uint magnitude = bits & MAGNITUDE_F32;
    bool is_zero = magnitude < SMALLEST_NORMAL_F32;
    if (!is_zero && magnitude - LEAST_ORDINARY_TERM >= LEAST_LARGE_TERM - LEAST_ORDINARY_TERM) {
        add_number_on_slow_path(sum, Double(uintBitsToFloat(bits), 0.0));
        return;
    }
    sum.ordinary = with_number(sum.ordinary, is_zero ? 0.0 : uintBitsToFloat(bits));
}

// Adds a number so many times.
Double multiple_of(float number, Double times) {
    Double product = two_product(number, times.high);
    precise float low = product.low + number * times.low;
    return fast_two_sum(product.high, low);
}
void add_multiple(inout TermSum sum, uint bits, Double times) {
    uint magnitude = bits & MAGNITUDE_F32;
    float number = uintBitsToFloat(bits);
    if (magnitude < SMALLEST_NORMAL_F32) { return; }
    if (magnitude >= INFINITY_F32) {
        sum.flags |= special_flags(bits);
    } else if (magnitude < LEAST_ORDINARY_BASE) {
        sum.flags |= HAS_OUTER_TERMS;
        sum.small = double_sum(sum.small, multiple_of(scaled_number(number, SMALL_EXPONENT), times));
    } else if (magnitude >= LEAST_LARGE_BASE) {
        sum.flags |= HAS_OUTER_TERMS;
        sum.large = double_sum(sum.large, multiple_of(scaled_number(number, -LARGE_EXPONENT), times));
    } else {
        sum.ordinary = double_sum(sum.ordinary, multiple_of(number, times));
    }
}

// The bits of number * 2^exponent, of which the first word's magnitude is from 1/2 up to 4, or which is 0: as a float32, and as a float16.
uint result_f32(Double number, int exponent) { return result_times_power(number.high, exponent); }
uint result_f16(Double number, int exponent) {
    uint sign = (floatBitsToUint(number.high) & SIGN_F32) >> 16;
    return exponent > 20 ? sign | INFINITY_F16 : float16_from_number(rounded_to_odd(scaled_double(number, max(exponent, -60))));
}

uint special_result_f32(uint flags) { return special_sum_of_terms(flags); }
uint special_result_f16(uint flags) { return float16_from_float32(special_sum_of_terms(flags)); }

#endif
