// Sums in two words, of terms of any magnitude, and what is made of them.
//
// A two-word sum is exact to 2^-48 of its terms' magnitudes as long as nothing overflows and no rounding error is denormal. So terms are
// added up in three sums: of ordinary ones as they are, of small ones 2^86 times as large, and of large ones 2^-80 times as large. (After
// J. L. Blue, «A portable Fortran program to find the Euclidean norm of a vector», 1978.)
#ifndef DOUBLE_SUMS_GLSL
#define DOUBLE_SUMS_GLSL

#include "error_free.glsl"
#include "float32.glsl"
#include "logarithm.glsl"

#define SMALL_EXPONENT 86
#define LARGE_EXPONENT 80

bool is_zero_number(float x) { return (floatBitsToUint(x) & MAGNITUDE_F32) == 0u; }

// a + b within 2^-46 of |a| + |b|. 14 operations.
Double double_sum(Double a, Double b) {
    Double total = two_sum(a.high, b.high);
    precise float low = (a.low + b.low) + total.low;
    return two_sum(total.high, low);
}

// What double_sum gives of sums whose second words are at most half a place of the first ones, but for zeros' signs. Where the first words cancel out
// they leave a multiple of the lesser one's last place, and so of the last place of what the second words come to: then the shorter sum is
// exact (T. J. Dekker, «A floating-point technique for extending the available precision», 1971).
Double normalized_sum(Double a, Double b) {
    Double total = two_sum(a.high, b.high);
    precise float low = (a.low + b.low) + total.low;
    return fast_two_sum(total.high, low);
}

// x * 2^exponent; zero where that is denormal. Not for results beyond the largest number.
float scaled_number(float x, int exponent) {
    uint bits = floatBitsToUint(x);
    int field = int((bits >> 23) & 0xffu);
    return field == 0 || field + exponent <= 0 ? 0.0 : uintBitsToFloat(bits + (uint(exponent) << 23));
}
Double scaled_double(Double x, int exponent) {
    return Double(scaled_number(x.high, exponent), scaled_number(x.low, exponent));
}

// The bits of x * 2^exponent for any exponent: infinite beyond the largest number, and zero below 2^-126.
uint result_times_power(float x, int exponent) {
    uint bits = floatBitsToUint(x);
    int field = int((bits >> 23) & 0xffu) + exponent;
    uint sign = bits & SIGN_F32;
    if ((bits & MAGNITUDE_F32) == 0u || field <= 0) { return sign; }
    return field >= 255 ? sign | INFINITY_F32 : sign | (uint(field) << 23) | (bits & 0x7fffffu);
}

// An integer in two words.
Double double_from_uint(uint n) {
    precise float high = float(int(n >> 16)) * 65536.0;
    return fast_two_sum(high, float(int(n & 0xffffu)));
}

#define HAS_NAN 1u
#define HAS_INFINITY 2u
#define HAS_MINUS_INFINITY 4u
#define HAS_OUTER_TERMS 8u

struct TermSum {
    Double ordinary, small, large;
    uint flags;
};
#define EMPTY_SUM TermSum(Double(0.0, 0.0), Double(0.0, 0.0), Double(0.0, 0.0), 0u)

TermSum joined_sums(TermSum a, TermSum b) {
    TermSum sum = TermSum(double_sum(a.ordinary, b.ordinary), a.small, a.large, a.flags | b.flags);
    if ((sum.flags & HAS_OUTER_TERMS) != 0u) {
        sum.small = double_sum(a.small, b.small);
        sum.large = double_sum(a.large, b.large);
    }
    return sum;
}

// What a sum comes to, as a number times 2^exponent: the number is zero, or its high word's magnitude is from 1 up to 2. Small terms
// were multiplied by 2^small_exponent, large ones by 2^-large_exponent.
Double total_of_scaled(TermSum sum, int small_exponent, int large_exponent, out int exponent) {
    Double total = sum.small;
    exponent = -small_exponent;
    if (!is_zero_number(sum.large.high)) {
        total = double_sum(sum.large, scaled_double(sum.ordinary, -large_exponent));
        exponent = large_exponent;
    } else if (!is_zero_number(sum.ordinary.high)) {
        total = double_sum(sum.ordinary, scaled_double(sum.small, -small_exponent));
        exponent = 0;
    }
    int own = int((floatBitsToUint(total.high) >> 23) & 0xffu) - 127;
    if (is_zero_number(total.high)) {
        exponent = 0;
        return Double(0.0, 0.0);
    }
    exponent += own;
    return scaled_double(total, -own);
}
// The same of terms that are that power of what was scaled.
Double sum_of_terms(TermSum sum, int power, out int exponent) {
    return total_of_scaled(sum, SMALL_EXPONENT * power, LARGE_EXPONENT * power, exponent);
}

// sqrt(x * 2^exponent) of a positive number whose high word is from 1 up to 2; within 0.5 ULP + 2^-40 of it.
uint root_of_double(Double x, int exponent) {
    if ((exponent & 1) != 0) {
        x = Double(x.high + x.high, x.low + x.low);
        exponent -= 1;
    }
    Double root = square_root(x.high);
    precise float rest = root.low + x.low * (0.5 * inverse_square_root_estimate(x.high));
    Double total = fast_two_sum(root.high, rest);
    return result_times_power(total.high, exponent >> 1);
}

// ln(x * 2^exponent), likewise, in two words.
Double logarithm_of_double(Double x, int exponent) {
    uint bits = floatBitsToUint(x.high);
    int k = logarithm_exponent(bits);
    float f = logarithm_fraction(bits, k);
    precise float f_low = x.low * power_of_two(-k);
    Double logarithm = logarithm_sum(float(k + exponent), f);
    precise float low = logarithm.low + logarithm_change(f, f_low);
    return two_sum(logarithm.high, low);
}

#endif
