// The inverse hyperbolic functions, by their definitions as logarithms.
//
// The logarithm's argument is found in two words: an error of 2^-28 there is one of 2^-28 in the result, a fraction of a
// unit in the last place of all but small results. Small arguments of asinh go through a series of their own, acosh's
// logarithm takes the distance from 1, and atanh's that of its quotient from a power of two. Polynomials by Sollya's
// fpminimax (S. Chevillard et al., 2010).
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

// From 2^-13 on atanh is not x, rounded, nor in need of products that could be denormal.
#define SMALLEST_ATANH 0x39000000

// With the power of two nearest to (1 + a) / (1 - a), 2^k, which is 1 for small a,
//     atanh a = k / 2 * ln 2 + atanh(t),   t = ((1 + a) - 2^k (1 - a)) / ((1 + a) + 2^k (1 - a)),
// and |t| is at most 1/5. All sums are exact in two words; t's first word has 12 bits, so that its products are exact.
// For 2^-13 <= a < 1. 59 operations.
float atanh_of_magnitude(float a)
{
    Double over = fast_two_sum(1.0, a);
    Double under = fast_two_sum(1.0, -a);
    // The exponent of the quotient, by the bits, which are a logarithm in a way.
    int distance = floatBitsToInt(over.high) - floatBitsToInt(under.high) + 0x00400000;
    float power = intBitsToFloat((distance & 0xff800000) + 0x3f800000);
    precise float k = float(distance >> 23);
    precise float under_high = power * under.high;
    precise float under_low = power * under.low;

    precise float difference = over.high - under_high; // exact: they are alike
    precise float difference_low = over.low - under_low;
    precise float sum = over.high + under_high;
    precise float sum_head = leading_half(sum);
    precise float sum_rest = ((over.high - sum_head) + under_high) + (over.low + under_low);
    precise float inverse = uintBitsToFloat(0x7ef33400u - floatBitsToUint(sum));
    inverse = inverse * (2.00127991 - sum * inverse);
    inverse = inverse * (2.00000072 - sum * inverse);
    precise float t_head = leading_half((difference + difference_low) * inverse);
    precise float t_low = ((difference - t_head * sum_head) + (difference_low - t_head * sum_rest)) * inverse;

    precise float t = t_head + t_low;
    precise float square = t * t;
    precise float series = 0.142784089 + square * 0.11701946;
    series = 0.199999154 + square * series;
    series = 0.333333343 + square * series;
    precise float base = k * 0.3465728759765625; // ln 2 / 2 in 16 bits
    precise float total = base + t_head;
    precise float rest = (base - total) + t_head;
    precise float value = total + (rest + (t_low + ((t * square) * series + k * 7.14303385e-7)));
    return value;
}

// atanh x. Odd; of +-1 infinities, beyond NaN. Largest error found among every 31st float32: 0.581 ULP (of 0x3f34b846).
// 65 operations.
uint atanh_f32(uint x)
{
    uint magnitude = x & MAGNITUDE_F32;
    int bits = int(magnitude);
    if (bits >= SMALLEST_ATANH && bits < int(ONE_F32)) {
        return floatBitsToUint(atanh_of_magnitude(uintBitsToFloat(magnitude))) | (x & SIGN_F32);
    }
    uint special = bits == int(ONE_F32) ? (x & SIGN_F32) | INFINITY_F32 : without_denormal(x);
    return bits > int(ONE_F32) ? NAN_F32 : special;
}
FLOAT16_FORM_1(atanh)

#endif
