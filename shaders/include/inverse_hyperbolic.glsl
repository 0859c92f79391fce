// The inverse hyperbolic functions, by their definitions as logarithms.
//
// The logarithm's argument is found in two words: an error of 2^-28 there is one of 2^-28 in the result, a fraction of a
// unit in the last place of all but small results. Small arguments of asinh and atanh go through series of their own,
// and acosh's logarithm takes the distance from 1. Polynomials by Sollya's fpminimax (S. Chevillard et al., 2010).
#ifndef INVERSE_HYPERBOLIC_GLSL
#define INVERSE_HYPERBOLIC_GLSL

#include "logarithm.glsl"

// From here on asinh and acosh are ln(2 * x) to within 2^-31 of themselves: 2^13.
#define HUGE_F32 0x46000000

// a * a within a relative 2^-35; the parts may overlap. 6 operations.
Double short_square(float a)
{
    precise float a_high = leading_half(a);
    precise float square = a_high * a_high; // exact
    precise float rest = (a - a_high) * (a + a_high);
    return Double(square, rest);
}

// sqrt(a.high + a.low) within a relative 2^-28, for 2^-60 <= a.high <= 2^60 and |a.low| <= 2^-23 * a.high. The first word
// has 12 bits, so that what is left of a after its square is exact. 22 operations: two steps of Newton's iteration for
// 1 / sqrt(a), which give 2^-17, and the first two terms of the series in what is left.
Double short_square_root(Double a)
{
    precise float half_a = 0.5 * a.high;
    precise float y = uintBitsToFloat(0x5f375a86u - (floatBitsToUint(a.high) >> 1));
    y = y * (1.5 - half_a * (y * y));
    y = y * (1.5 - half_a * (y * y));
    precise float high = leading_half(a.high * y);
    precise float remainder = (a.high - high * high) + a.low;
    precise float half_y = 0.5 * y;
    precise float linear = remainder * half_y;
    precise float low = linear + linear * (linear * half_y);
    return Double(high, low);
}

// asinh x = ln(x + sqrt(x^2 + 1)), below 3/8 x + x^3 * r(x^2). Odd; infinities stay.
// Largest error: 0.568 ULP, at 0.372569203 (0x3ebec164). 127 operations.
uint asinh_f32(uint x)
{
    uint magnitude = without_denormal(x & MAGNITUDE_F32);
    int bits = int(magnitude);
    precise float a = uintBitsToFloat(magnitude);
    precise float square = a * a;
    precise float r = 0.0287762042 + square * -0.0142780002;
    r = -0.0445047468 + square * r;
    r = 0.0749956667 + square * r;
    r = -0.166666642 + square * r;
    precise float small = a + a * (square * r);

    bool is_huge = bits >= HUGE_F32;
    float b = is_huge ? 1.0 : a;
    Double b_square = short_square(b);
    Double radicand = fast_two_sum(1.0, b_square.high); // exact: see log1p
    precise float radicand_low = radicand.low + b_square.low;
    Double root = short_square_root(fast_two_sum(radicand.high, radicand_low));
    Double sum = fast_two_sum(root.high, b); // exact: root.high is above b, or has 12 bits and the same size
    precise float sum_low = sum.low + root.low;
    Double z = fast_two_sum(sum.high, sum_low);
    uint doubled = magnitude + 0x00800000u;
    Double total = log_normal(is_huge ? doubled : floatBitsToUint(z.high), is_huge ? 0.0 : z.low);
    precise float large = total.high + total.low;

    uint result = bits < 0x3ec00000 ? floatBitsToUint(small) : floatBitsToUint(large);
    result = bits == int(INFINITY_F32) ? INFINITY_F32 : result;
    return bits > int(INFINITY_F32) ? NAN_F32 : (x & SIGN_F32) | result;
}
FLOAT16_FORM_1(asinh)

// acosh x = ln(1 + u) with u = t + sqrt(t^2 + 2 * t) and t = x - 1. Of 1 +0, of what is below 1 NaN.
// Largest error: 0.598 ULP, at 1.04736292 (0x3f860ffd). 124 operations.
uint acosh_f32(uint x)
{
    int bits = int(x);
    bool is_huge = bits >= HUGE_F32;
    bool is_inside = bits > int(ONE_F32) && bits < int(INFINITY_F32);
    precise float u_huge = uintBitsToFloat(is_inside ? x : 0x40000000u) - 1.0;
    float t = is_huge ? 1.0 : u_huge;
    Double t_square = short_square(t);
    Double radicand = two_sum(t + t, t_square.high);
    precise float radicand_low = radicand.low + t_square.low;
    Double root = short_square_root(fast_two_sum(radicand.high, radicand_low));
    Double sum = fast_two_sum(root.high, t); // exact: as in asinh_f32
    precise float sum_low = sum.low + root.low;
    Double u = fast_two_sum(sum.high, sum_low);

    Double total = log1p(Double(is_huge ? u_huge : u.high, is_huge ? 0.0 : u.low), int(is_huge));
    precise float value = total.high + total.low;
    uint special = bits == int(INFINITY_F32) ? INFINITY_F32 : NAN_F32;
    special = bits == int(ONE_F32) ? 0u : special;
    return is_inside ? floatBitsToUint(value) : special;
}
FLOAT16_FORM_1(acosh)

// atanh x = ln((1 + x) / (1 - x)) / 2, below 1/4 x + x^3 * r(x^2). Odd; of +-1 infinities, beyond NaN.
// Largest error: 0.558 ULP, at 0.234366834 (0x3e6ffddc). 115 operations.
uint atanh_f32(uint x)
{
    uint magnitude = without_denormal(x & MAGNITUDE_F32);
    int bits = int(magnitude);
    precise float a = uintBitsToFloat(magnitude);
    precise float square = a * a;
    precise float r = 0.142335027 + square * 0.123659164;
    r = 0.200007185 + square * r;
    r = 0.333333313 + square * r;
    precise float small = a + a * (square * r);

    float b = bits < int(ONE_F32) ? a : 0.5;
    Double numerator = fast_two_sum(1.0, b);
    Double denominator = fast_two_sum(1.0, -b);
    // The quotient's first 12 bits, so that what is left of the numerator is found with two exact products.
    precise float inverse = reciprocal_estimate(denominator.high);
    precise float quotient_high = leading_half(numerator.high * inverse);
    precise float denominator_high = leading_half(denominator.high);
    precise float denominator_low = (denominator.high - denominator_high) + denominator.low;
    precise float remainder = numerator.high - quotient_high * denominator_high;
    remainder = remainder + (numerator.low - quotient_high * denominator_low);
    precise float quotient_low = remainder * inverse;
    Double z = fast_two_sum(quotient_high, quotient_low);
    Double total = log_normal(floatBitsToUint(z.high), z.low);
    precise float large = 0.5 * (total.high + total.low);

    uint result = bits < 0x3e800000 ? floatBitsToUint(small) : floatBitsToUint(large);
    result = bits == int(ONE_F32) ? INFINITY_F32 : result;
    return bits > int(ONE_F32) ? NAN_F32 : (x & SIGN_F32) | result;
}
FLOAT16_FORM_1(atanh)

#endif
