// Sums of a row's elements, or of the squares of their differences from a mean, in two words: what is added at once, and what is made of a
// sum. The order in which it is added up is the pattern's.
#ifndef TERM_SUMS_GLSL
#define TERM_SUMS_GLSL

#include "double_sums.glsl"

// Magnitudes of ordinary terms: no rounding error of a sum of them is denormal. Squares of numbers from 2^-40 on are multiples of 2^-126.
#define LEAST_ORDINARY_TERM 0x0d800000u // 2^-100
#define LEAST_LARGE_TERM 0x6c800000u    // 2^90
#define LEAST_ORDINARY_BASE 0x2b800000u // 2^-40, of what is squared
#define LEAST_LARGE_BASE 0x53800000u    // 2^40

uint special_flags(uint x) {
    if (int(x & MAGNITUDE_F32) > int(INFINITY_F32)) { return HAS_NAN; }
    return int(x) < 0 ? HAS_MINUS_INFINITY : HAS_INFINITY;
}

Double sum_of_four(Double a, Double b, Double c, Double d) {
    Double left = two_sum(a.high, b.high);
    Double right = two_sum(c.high, d.high);
    Double total = two_sum(left.high, right.high);
    precise float low = ((a.low + b.low) + (c.low + d.low)) + ((left.low + right.low) + total.low);
    return Double(total.high, low);
}

// What sum_of_four gives of numbers without second words, but for zeros' signs.
Double sum_of_four_numbers(vec4 x) {
    Double left = two_sum(x.x, x.y);
    Double right = two_sum(x.z, x.w);
    Double total = two_sum(left.high, right.high);
    precise float low = (left.low + right.low) + total.low;
    return Double(total.high, low);
}

// (glslang 12 does not come to an end over precise sums of members of members.)
Double with_next_four(Double sum, Double next) {
    Double total = two_sum(sum.high, next.high);
    precise float low = sum.low + (next.low + total.low);
    return Double(total.high, low);
}
TermSum with_sum_of_four(TermSum state, Double sum) {
    return TermSum(with_next_four(state.ordinary, sum), state.small, state.large, state.flags);
}

// Numbers below 2^-102 count as zero: so no rounding error is denormal.
float without_tiny(uint x) { return uintBitsToFloat(int(x & MAGNITUDE_F32) < 0x0c800000 ? 0u : x); }

// x - mean.
Double difference_in_two_words(float x, Double mean) {
    Double difference = two_sum(x, -mean.high);
    precise float low = difference.low - mean.low;
    return fast_two_sum(difference.high, low);
}
Double difference_from_mean(uint x, Double mean) { return difference_in_two_words(without_tiny(x), mean); }

// The square of a difference in two words.
Double square_of(Double base) {
    Double square = two_square(base.high);
    bool has_low = int(floatBitsToUint(base.low) & MAGNITUDE_F32) >= 0x15800000; // 2^-84, times 2^-40 no denormal
    precise float low = square.low + (base.high + base.high) * (has_low ? base.low : 0.0);
    return Double(square.high, low);
}

// Adds a single term, of any magnitude or special.
#define ADD_SLOW_PATH_TERM(add_on_slow_path, term_of, LEAST_ORDINARY, LEAST_LARGE) \
    void add_on_slow_path(inout TermSum state, Double base) { \
        uint bits = floatBitsToUint(base.high); \
        uint magnitude = bits & MAGNITUDE_F32; \
        if (int(magnitude) >= int(INFINITY_F32)) { \
            state.flags |= special_flags(bits); \
            return; \
        } \
        if (int(magnitude) < int(SMALLEST_NORMAL_F32)) { return; } \
        if (magnitude >= LEAST_ORDINARY && magnitude < LEAST_LARGE) { \
            state.ordinary = double_sum(state.ordinary, term_of(base)); \
            return; \
        } \
        state.flags |= HAS_OUTER_TERMS; \
        if (magnitude < LEAST_ORDINARY) { \
            state.small = double_sum(state.small, term_of(scaled_double(base, SMALL_EXPONENT))); \
        } else { \
            state.large = double_sum(state.large, term_of(scaled_double(base, -LARGE_EXPONENT))); \
        } \
    }

// The result where a sum is infinite or NaN.
uint special_sum_of_terms(uint flags) {
    bool is_nan = (flags & HAS_NAN) != 0u || (flags & (HAS_INFINITY | HAS_MINUS_INFINITY)) == (HAS_INFINITY | HAS_MINUS_INFINITY);
    uint infinity = (flags & HAS_MINUS_INFINITY) != 0u ? SIGN_F32 | INFINITY_F32 : INFINITY_F32;
    return is_nan ? NAN_F32 : infinity;
}
uint special_sum_of_squares(uint flags) { return (flags & HAS_NAN) != 0u ? NAN_F32 : INFINITY_F32; }
bool is_special_sum(uint flags) { return (flags & (HAS_NAN | HAS_INFINITY | HAS_MINUS_INFINITY)) != 0u; }

// A total of sum_of_terms by the number of elements, with the same exponent.
Double mean_of_total(Double total, uint elements) {
    bool is_zero = is_zero_number(total.high);
    Double mean = quotient(total, double_from_uint(elements));
    return Double(is_zero ? 0.0 : mean.high, is_zero ? 0.0 : mean.low);
}

// The bits of mean * 2^exponent, such that nothing that is subtracted from it has a denormal rounding error. A second word below 2^-44 of the first is
// what the quotient was off by: without it the mean of equal numbers is that number.
uvec2 mean_in_two_words(Double mean, int exponent) {
    uint high = result_times_power(mean.high, exponent);
    uint low = result_times_power(mean.low, exponent);
    bool is_usual = int(high & MAGNITUDE_F32) >= 0x0c800000;
    bool has_low = is_usual && int(low & MAGNITUDE_F32) >= 0x0c800000 && int(high & MAGNITUDE_F32) < int(INFINITY_F32);
    has_low = has_low && int(high & MAGNITUDE_F32) - int(low & MAGNITUDE_F32) <= (44 << 23);
    return uvec2(is_usual ? high : 0u, has_low ? low : 0u);
}

#endif
