// The inverse hyperbolic functions, by their definitions as logarithms.
//
// The logarithm's argument is found in two words: an error of 2^-28 there is one of 2^-28 in the result, a fraction of a
// unit in the last place. It is then divided by the nearest power of two, and what is left is twice the inverse hyperbolic
// tangent of a small quotient, which keeps the relative accuracy of small results. Polynomial by Sollya's fpminimax
// (S. Chevillard et al., 2010).
#ifndef INVERSE_HYPERBOLIC_GLSL
#define INVERSE_HYPERBOLIC_GLSL

#include "logarithm.glsl"

// From here on asinh and acosh are ln(2 * x) to within 2^-31 of themselves: 2^13.
#define HUGE_F32 0x46000000
// Below 2^-13 asinh and atanh are the number itself, rounded; and products of such numbers could be denormal.
#define IS_NOT_ITSELF 0x39000000

// a * a within a relative 2^-35; the parts may overlap. 6 operations.
Double short_square(float a)
{
    precise float a_high = leading_half(a);
    precise float square = a_high * a_high; // exact
    precise float rest = (a - a_high) * (a + a_high);
    return Double(square, rest);
}

// sqrt(a.high + a.low) within a relative 2^-31, for 2^-60 <= a.high <= 2^60 and |a.low| <= 2^-10 * a.high. The first word
// has 12 bits, so that what is left of a after its square is exact. 22 operations: two steps of Newton's iteration for
// 1 / sqrt(a), with the constants of quick_square_root, and the first two terms of the series in what is left.
Double short_square_root(Double a)
{
    precise float sum = a.high + a.low;
    precise float half_a = 0.5 * sum;
    precise float y = uintBitsToFloat(0x5f376800u - (floatBitsToUint(sum) >> 1));
    y = y * (1.50081661 - (half_a * y) * y);
    y = y * (1.50000072 - (half_a * y) * y);
    precise float high = leading_half(sum * y);
    precise float remainder = (a.high - high * high) + a.low;
    precise float half_y = 0.5 * y;
    precise float linear = remainder * half_y;
    precise float low = linear + linear * (linear * half_y);
    return Double(high, low);
}

// k / 2 * ln 2 + atanh(t), rounded, with t = difference / (first + second + low) and |t| <= 1/5. t's first word has 12 bits, so
// that its products are exact; so is first - (first + second) where first is the larger one, or a power of two, of numbers
// between which there is no more than a factor of 3/2. 44 operations.
float half_logarithm(Double difference, float first, float second, float low, float k)
{
    precise float sum = (first + second) + low;
    precise float sum_head = leading_half(sum);
    precise float sum_rest = ((first - sum_head) + second) + low;
    precise float inverse = uintBitsToFloat(0x7ef33400u - floatBitsToUint(sum));
    inverse = inverse * (2.00127991 - sum * inverse);
    inverse = inverse * (2.00000072 - sum * inverse);
    precise float t_head = leading_half((difference.high + difference.low) * inverse);
    precise float t_low = ((difference.high - t_head * sum_head) + (difference.low - t_head * sum_rest)) * inverse;

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

// The power of two nearest to z >= 1, by the bits, which are a logarithm in a way: z is 3/4 to 3/2 of it.
int exponent_nearest(float z) { return (floatBitsToInt(z) - 0x3f400000) >> 23; }

// ln z with z = a + sqrt(a^2 + 1), for 2^-13 <= a < 2^13. With the power of two nearest to z, 2^k, that is k * ln 2 and twice the
// atanh of (z - 2^k) / (z + 2^k); for k = 0, of the same quotient as a / (sqrt(a^2 + 1) + 1). 90 operations.
float asinh_of_magnitude(float a)
{
    Double square = short_square(a);
    Double radicand = fast_two_sum(1.0, square.high); // exact: see log1p
    precise float radicand_low = radicand.low + square.low;
    Double root = short_square_root(Double(radicand.high, radicand_low));
    Double z = fast_two_sum(root.high, a); // exact: root.high is above a, or has 12 bits and the same size
    precise float z_low = z.low + root.low;
    int k = exponent_nearest(z.high);
    float power = power_of_two(k);
    precise float beyond = z.high - power; // exact: they are alike
    Double difference = Double(k == 0 ? a : beyond, k == 0 ? 0.0 : z_low);
    float second = k == 0 ? root.high : z.high;
    precise float value = 2.0 * half_logarithm(difference, power, second, k == 0 ? root.low : z_low, float(k));
    return value;
}

// asinh x = ln(x + sqrt(x^2 + 1)). Odd; infinities stay. Largest error found among every 31st float32: 0.542 ULP (of
// 0xbecb0674). 95 operations.
uint asinh_f32(uint x)
{
    uint magnitude = x & MAGNITUDE_F32;
    int bits = int(magnitude);
    if (bits >= IS_NOT_ITSELF && bits < HUGE_F32) {
        return floatBitsToUint(asinh_of_magnitude(uintBitsToFloat(magnitude))) | (x & SIGN_F32);
    }
    uint large = floatBitsToUint(log_normal(magnitude + 0x00800000u)) | (x & SIGN_F32);
    uint result = bits < HUGE_F32 || bits == int(INFINITY_F32) ? without_denormal(x) : large;
    return bits > int(INFINITY_F32) ? NAN_F32 : result;
}
FLOAT16_FORM_1(asinh)

// ln(1 + u) with u = t + sqrt(t^2 + 2 * t), for 2^-23 <= t < 2^13. 85 operations.
float acosh_of_distance(float t)
{
    Double square = short_square(t);
    Double radicand = two_sum(t + t, square.high);
    precise float radicand_low = radicand.low + square.low;
    Double root = short_square_root(Double(radicand.high, radicand_low));
    Double u = fast_two_sum(root.high, t); // exact: as in asinh_of_large
    precise float u_low = u.low + root.low;
    Double z = fast_two_sum(1.0, u.high); // exact: see log1p
    precise float z_low = z.low + u_low;
    int k = exponent_nearest(z.high);
    float power = power_of_two(k);
    precise float beyond = z.high - power; // exact: they are alike
    precise float value = 2.0 * half_logarithm(Double(beyond, z_low), power, z.high, z_low, float(k));
    return value;
}

// acosh x = ln(x + sqrt(x^2 - 1)). Of 1 +0, of what is below 1 NaN. Largest error found among every 31st float32: 0.533 ULP
// (of 0x3f896f18). 97 operations.
uint acosh_f32(uint x)
{
    int bits = int(x);
    if (bits > int(ONE_F32) && bits < HUGE_F32) {
        precise float distance = uintBitsToFloat(x) - 1.0;
        return floatBitsToUint(acosh_of_distance(distance));
    }
    uint special = bits >= HUGE_F32 ? floatBitsToUint(log_normal(x + 0x00800000u)) : NAN_F32;
    special = bits == int(INFINITY_F32) ? INFINITY_F32 : special;
    special = bits > int(INFINITY_F32) ? NAN_F32 : special;
    return bits == int(ONE_F32) ? 0u : special;
}
FLOAT16_FORM_1(acosh)

// atanh x. Odd; of +-1 infinities, beyond NaN. Up to 1/2 atanh(a) is a + a^3 * p(a^2). Above, with g = 1 - a and the power of two
// p = 2^k that brings p * g between 1.2 and 2.4, it is k/2 * ln 2 + atanh(t) with t = (2 - p * g - g) / (2 + p * g - g), where g and
// the dividend are exact; the same polynomial serves t, whose magnitude is below 0.26.
// Largest error over all 2^32 inputs: 0.8324 ULP, at -0.701322794 (0xbf3389e4). 55 operations.
uint atanh_f32(uint x)
{
    int magnitude = int(x & MAGNITUDE_F32);
    precise float a = intBitsToFloat(magnitude);
    precise float g = 1.0 - a;
    uint power_bits = (0x7f99999au - floatBitsToUint(g)) & 0xff800000u;
    precise float multiple = uintBitsToFloat(power_bits) * g;
    precise float over = (2.0 - multiple) - g;
    precise float under = over + (multiple + multiple);
    precise float inverse = uintBitsToFloat(0x7ef33400u - floatBitsToUint(under));
    inverse = inverse * (2.00127991 - under * inverse);
    inverse = inverse * (2.00000072 - under * inverse);
    precise float quotient = over * inverse;
    precise float missing = (over - quotient * under) * inverse;
    precise float exponent = uintBitsToFloat((power_bits >> 23) + 0x4affff81u) - 8388608.0; // k: 0x4b000000 is 2^23
    precise float lesser = exponent * 7.14303385e-7 + missing; // the rest of ln 2 / 2

    bool is_small = magnitude <= 0x3f000000;
    float t = is_small ? a : quotient;
    float k = is_small ? 0.0 : exponent;
    float low = is_small ? 0.0 : lesser;
    precise float square = t * t;
    precise float series = 0.0516194887 + square * 0.176356837;
    series = 0.118160061 + square * series;
    series = 0.142238259 + square * series;
    series = 0.200024515 + square * series;
    series = 0.333333015 + square * series;
    Double leading = fast_two_sum(k * 0.3465728759765625, t);
    precise float value = leading.high + (leading.low + ((t * square) * series + low));
    uint result = magnitude < int(SMALLEST_NORMAL_F32) ? 0u : floatBitsToUint(value);
    result = magnitude == int(ONE_F32) ? INFINITY_F32 : result;
    return magnitude > int(ONE_F32) ? NAN_F32 : result | (x & SIGN_F32);
}
FLOAT16_FORM_1(atanh)

#endif
