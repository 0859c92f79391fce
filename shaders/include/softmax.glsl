// What the softmax operators make of a row's elements, the row's largest value, the peak, being known. Everything is relative
// to the peak, so that nothing overflows; sums are in two words (T. J. Dekker, «A floating-point technique for extending the
// available precision», 1971).
//
// SOFTMAX: x - shift is exact for every element that matters, the shift being zero, or the peak where that is so large that a
// difference of two numbers which are not far apart has no rounding (P. H. Sterbenz, «Floating-point computation», 1974).
//
// LOG_SOFTMAX: d = x - peak in two words, for no rounding may be multiplied by e^d. The sum of e^d leaves out the peak's own
// place, whose term is 1: so ln(1 + sum) keeps its accuracy where the sum is small. The sum is 2^90 times as large as it is, so
// that the smallest terms that matter are normal numbers.
#ifndef SOFTMAX_GLSL
#define SOFTMAX_GLSL

#include "error_free.glsl"
#include "exponential.glsl"
#include "float32.glsl"
#include "logarithm.glsl"
#include "significand.glsl"

#define LARGEST_UNSHIFTED 0x43300000 // 176: from here on what is not below half the peak is all that matters
#define FAR_BELOW 0x43960000 // 300: more than 124 below the peak, whose power is below 2^-178
#define NEXT_TO_NOTHING 0x21800000 // 2^-60: what is smaller makes no difference to the power
#define SUM_EXPONENT 90
#define LOWEST_DIFFERENCE 0xc2dc0000u // -110: e^d is below 2^-158, which is nothing even 2^32 times
#define SMALLEST_DIFFERENCE 0x17800000 // 2^-80: what is smaller makes no difference to e^d
#define HUGE_DIFFERENCE 0x71800000 // 2^100
#define SMALLEST_SECOND_WORD 0x30800000 // 2^-30, scaled
#define TINY_SUM 0x58800000 // 2^-40, scaled
#define EXPONENT_OF_FAR (-1000) // of e^d below LOWEST_DIFFERENCE

// a + b, for numbers of one sign. Relative error: at most 3 * 2^-48. 11 operations.
Double sum_of(Double a, Double b)
{
    Double total = two_sum(a.high, b.high);
    precise float low = total.low + (a.low + b.low);
    return fast_two_sum(total.high, low);
}

// a + b for two numbers of one sign, of which a few are added before fast_two_sum makes their second word small. 8 operations.
Double quick_sum_of(Double a, Double b)
{
    Double total = two_sum(a.high, b.high);
    precise float low = a.low + (total.low + b.low);
    return Double(total.high, low);
}

// x - peak. From 2^100 on the second word is left out: it makes no difference to any result, and what two_sum does on the way
// may overflow.
Double difference_of(uint x, float peak)
{
    Double difference = two_sum(as_float32(x), -peak);
    bool is_huge = int(floatBitsToUint(difference.high) & MAGNITUDE_F32) >= HUGE_DIFFERENCE;
    return Double(difference.high, uintBitsToFloat(is_huge ? 0u : floatBitsToUint(difference.low)));
}

// e^d = (high + low) * 2^exponent, as exponential() gives it.
struct Power {
    Double value;
    int exponent;
};

// What elements of a row are seen relative to: x - shift is taken to the power, and its exponent counts from the peak's.
struct SoftmaxBasis {
    float shift;
    int exponent;
};

SoftmaxBasis softmax_basis_of(float peak)
{
    uint bits = floatBitsToUint(peak);
    bool is_large = int(bits & MAGNITUDE_F32) > LARGEST_UNSHIFTED;
    int exponent;
    Double unused = exponential(uintBitsToFloat(is_large ? 0u : bits), exponent);
    return SoftmaxBasis(uintBitsToFloat(is_large ? bits : 0u), exponent);
}

// e^(x - peak), times a number between 0.7 and 1.42 that is the same throughout the row. 40 operations.
Power softmax_power_of(uint x, SoftmaxBasis basis)
{
    precise float difference = uintBitsToFloat(x) - basis.shift;
    uint bits = floatBitsToUint(difference);
    int magnitude = int(bits & MAGNITUDE_F32);
    bool is_far = magnitude > FAR_BELOW;
    int exponent;
    Double value = exponential(uintBitsToFloat(is_far || magnitude < NEXT_TO_NOTHING ? 0u : bits), exponent);
    return Power(value, is_far ? EXPONENT_OF_FAR : exponent - basis.exponent);
}

// What such a power adds to the sum. Where that is far below what matters it is too much, and far below what matters too.
Double softmax_term_of(Power power)
{
    float factor = power_of_two(max(power.exponent, -100));
    precise float high = power.value.high * factor;
    precise float low = power.value.low * factor;
    return Double(high, low);
}

// 1 / sum, with a first word of 12 bits.
Double softmax_row_of(Double sum) { return shortened(quotient(Double(1.0, 0.0), sum)); }

// The power's share of the sum, which is at most 1. 16 operations.
uint softmax_f32(Power power, Double reciprocal)
{
    Double product = short_product(reciprocal, shortened(power.value));
    precise float share = product.high + product.low;
    uint bits = floatBitsToUint(share);
    return (int(bits) >> 23) + power.exponent < 1 ? 0u : bits + (uint(power.exponent) << 23);
}

Power power_of(Double difference)
{
    uint bits = floatBitsToUint(difference.high);
    int magnitude = int(bits & MAGNITUDE_F32);
    bool is_far = magnitude > int(LOWEST_DIFFERENCE & MAGNITUDE_F32);
    bool is_small = magnitude < SMALLEST_DIFFERENCE;
    uint high = is_far ? LOWEST_DIFFERENCE : is_small ? 0u : bits;
    uint low = is_far || is_small ? 0u : floatBitsToUint(difference.low);
    int exponent;
    Double value = exponential(Double(uintBitsToFloat(high), uintBitsToFloat(low)), exponent);
    return Power(value, is_far ? EXPONENT_OF_FAR : exponent);
}

// What the power of a difference adds to the sum. Where that is far below what matters, it only tells that it is there.
Double log_softmax_term_of(Double difference)
{
    Power power = power_of(difference);
    float factor = power_of_two(max(power.exponent + SUM_EXPONENT, -100));
    precise float high = power.value.high * factor;
    precise float low = power.value.low * factor;
    return Double(high, low);
}

// A scaled sum as it is. Its second word, where that is next to nothing, is left out: it would be denormal.
Double unscaled(Double sum)
{
    uint low_bits = floatBitsToUint(sum.low);
    uint kept = int(low_bits & MAGNITUDE_F32) < SMALLEST_SECOND_WORD ? 0u : low_bits;
    precise float high = sum.high * power_of_two(-SUM_EXPONENT);
    precise float low = uintBitsToFloat(kept) * power_of_two(-SUM_EXPONENT);
    return Double(high, low);
}

// ln(1 + sum) where the sum is not tiny; else 0. And what d - ln(1 + sum) is for d = 0 where the sum is tiny, as bits: -sum.
struct LogarithmOfTotal {
    Double value;
    uint of_peak;
    bool sum_is_tiny;
};

// 100 operations, once for a row.
LogarithmOfTotal logarithm_of_total(Double sum)
{
    int magnitude = int(floatBitsToUint(sum.high));
    bool is_tiny = magnitude < TINY_SUM;
    Double true_sum = unscaled(sum);
    Double logarithm = log1p(Double(is_tiny ? 1.0 : true_sum.high, is_tiny ? 0.0 : true_sum.low), 0);
    precise float opposite = -sum.high - sum.low;
    uint of_peak = magnitude == 0 ? 0u : scaled_bits(opposite, -SUM_EXPONENT);
    return LogarithmOfTotal(Double(is_tiny ? 0.0 : logarithm.high, is_tiny ? 0.0 : logarithm.low), of_peak, is_tiny);
}

// d - ln(1 + sum). 20 operations.
uint log_softmax_f32(Double difference, LogarithmOfTotal logarithm)
{
    Double total = two_sum(difference.high, -logarithm.value.high);
    precise float low = total.low + (difference.low - logarithm.value.low);
    precise float value = total.high + low;
    int magnitude = int(floatBitsToUint(difference.high) & MAGNITUDE_F32);
    uint result = magnitude == 0 && logarithm.sum_is_tiny ? logarithm.of_peak : floatBitsToUint(value);
    return magnitude >= int(INFINITY_F32) ? SIGN_F32 | INFINITY_F32 : result;
}

#endif
