// What the softmax operators make of a row's elements, the row's largest value being known.
//
// Everything is relative to that value, the peak: d = x - peak, in two words, so that nothing overflows and no rounding is
// multiplied by e^x. The sum of e^d leaves out the peak's own place, whose term is 1: so ln(1 + sum) keeps its accuracy where
// the sum is small. Sums are in two words (the addition is that of T. J. Dekker, «A floating-point technique for extending the
// available precision», 1971), and 2^90 times as large as they are, so that the smallest terms that matter are normal numbers.
#ifndef SOFTMAX_GLSL
#define SOFTMAX_GLSL

#include "error_free.glsl"
#include "exponential.glsl"
#include "float32.glsl"
#include "logarithm.glsl"
#include "significand.glsl"

#define SUM_EXPONENT 90
#define LOWEST_DIFFERENCE 0xc2dc0000u // -110: e^d is below 2^-158, which is nothing even 2^32 times
#define SMALLEST_DIFFERENCE 0x17800000 // 2^-80: what is smaller makes no difference to e^d
#define HUGE_DIFFERENCE 0x71800000 // 2^100
#define SMALLEST_SECOND_WORD 0x30800000 // 2^-30, scaled
#define TINY_SUM 0x58800000 // 2^-40, scaled
#define EXPONENT_OF_FAR (-1000) // of e^d below LOWEST_DIFFERENCE

// A + b, for numbers of one sign. Relative error: at most 3 * 2^-48. 11 operations.
Double sum_of(Double a, Double b)
{
    Double total = two_sum(a.high, b.high);
    precise float low = total.low + (a.low + b.low);
    return fast_two_sum(total.high, low);
}

// x - peak. From 2^100 on the second word is left out: it makes no difference to any result, and what two_sum does on the way
// may overflow.
Double difference_of(uint x, float peak)
{
    Double difference = two_sum(as_float32(x), -peak);
    bool is_huge = int(floatBitsToUint(difference.high) & MAGNITUDE_F32) >= HUGE_DIFFERENCE;
    return Double(difference.high, uintBitsToFloat(is_huge ? 0u : floatBitsToUint(difference.low)));
}

// e^d = (high + low) * 2^exponent, as exponential() gives it. About 50 operations.
struct Power {
    Double value;
    int exponent;
};

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
Double term_of(Power power)
{
    float factor = power_of_two(max(power.exponent + SUM_EXPONENT, -100));
    precise float high = power.value.high * factor;
    precise float low = power.value.low * factor;
    return Double(high, low);
}

Double term_of(Double difference) { return term_of(power_of(difference)); }

// A scaled sum as it is. Its second word, where that is next to nothing, is left out: it would be denormal.
Double unscaled(Double sum)
{
    uint low_bits = floatBitsToUint(sum.low);
    uint kept = int(low_bits & MAGNITUDE_F32) < SMALLEST_SECOND_WORD ? 0u : low_bits;
    precise float high = sum.high * power_of_two(-SUM_EXPONENT);
    precise float low = uintBitsToFloat(kept) * power_of_two(-SUM_EXPONENT);
    return Double(high, low);
}

// 1 / (1 + sum), with a first word of 12 bits. 60 operations, once for a row.
Double reciprocal_of_total(Double sum)
{
    Double total = two_sum(power_of_two(SUM_EXPONENT), sum.high);
    precise float low = total.low + sum.low;
    return shortened(quotient(Double(1.0, 0.0), unscaled(fast_two_sum(total.high, low))));
}

// e^d / (1 + sum). 21 operations.
uint softmax_f32(Power power, Double reciprocal) { return rounded_product(reciprocal, power.value, power.exponent); }

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
