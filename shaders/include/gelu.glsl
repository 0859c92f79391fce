// The Gaussian error linear unit: x times the normal distribution's probability of values below x.
//
// Below zero that is -a * Q(a), with a = |x| and Q(a) = erfc(a / sqrt(2)) / 2; above it is a - a * Q(a), which nothing
// cancels, as Q(a) is at most 1/2. With t = a / (a + 2),
//     a * Q(a) = e^(-a^2 / 2) * t * w(t),   w(t) = 1 - 5/8 t + series(t - 9/16),
// where w falls smoothly from 1 to 0.4 on the whole axis (an idea of M. Shepherd and J. Laframboise, «Chebyshev approximation
// of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity», 1981). All is in two words, so that rounding happens once.
#ifndef GELU_GLSL
#define GELU_GLSL

#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"

// t * w(t) for a = head + rest, head being a multiple of 2^-8 below 16; its two words are not normalized.
Double gelu_factor(float a, float head, float rest)
{
    // t as quick_quotient has it, but that the divisor's halves are known.
    precise float divisor = head + 2.0;
    precise float whole = divisor + rest;
    precise float inverse = uintBitsToFloat(0x7ef33400u - floatBitsToUint(whole));
    inverse = inverse * (2.00127991 - whole * inverse);
    inverse = inverse * (2.00000072 - whole * inverse);
    precise float t_head = leading_half(a * inverse);
    precise float t_rest = (exact_product_plus(-t_head, divisor, a) - t_head * rest) * inverse;
    precise float t = t_head + t_rest;

    precise float middle = t - 0.5625;
    precise float series = -0.241047353 + middle * -0.132633001;
    series = -0.0533488877 + middle * series;
    series = 0.220318243 + middle * series;
    series = 0.216349557 + middle * series;
    series = -0.0546394810 + middle * series;
    series = -0.250640929 + middle * series;
    series = -0.0810330138 + middle * series;
    series = 0.282915443 + middle * series;
    series = 0.169539914 + middle * series;
    series = -0.0199922621 + middle * series;
    series = -0.0169337038 + middle * series;

    // The line is taken at a t of few bits, so that its product with t_head is exact.
    precise float short_t = (t + 196608.0) - 196608.0; // 1.5 * 2^17 leaves the nearest multiple of 2^-6
    precise float line = exact_product_plus(-0.625, short_t, 1.0);
    precise float bend = series - 0.625 * ((t_head - short_t) + t_rest);
    precise float high = t_head * line;
    precise float low = t_rest * line + t * bend;
    return Double(high, low);
}

// a * Q(a) = (high + low) * 2^-count for 2^-40 <= a <= 14, where shifted is count + 1.5 * 2^23. The square of the head is exact,
// and so is the product of the first words of both factors, which have 12 bits.
Double gelu_tail(float a, out float shifted)
{
    precise float head = (a + 49152.0) - 49152.0; // 1.5 * 2^15 leaves the nearest multiple of 2^-8
    precise float rest = a - head;
    precise float square = head * head;
    precise float square_rest = rest * (a + head);
    // e^(-r / 2), where r is the square less count * 2 ln 2, as exponential_parts has it.
    precise float sum = square * 0.721347520 + 12582912.0;
    precise float count = sum - 12582912.0;
    precise float r_head = exact_product_plus(count, -1.38629150, square);
    precise float r_rest = count * 2.85721354e-06 - square_rest;
    precise float r_short = (r_head + 12288.0) - 12288.0; // 1.5 * 2^13 leaves the nearest multiple of 2^-10
    precise float r_low = (r_head - r_short) - r_rest;
    precise float r = r_head - r_rest;
    precise float quadratic = 2.17812558e-05 - 1.54330712e-06 * r;
    quadratic = quadratic * r - 0.000260423898;
    quadratic = quadratic * r + 0.00260415114;
    quadratic = quadratic * r - 0.0208333321;
    quadratic = quadratic * r + 0.125;
    precise float bell = exact_product_plus(-0.5, r_short, 1.0);
    precise float bell_rest = exact_product_plus(-0.5, r_low, r * r * quadratic);

    Double factor = gelu_factor(a, head, rest);
    precise float whole = factor.high + factor.low;
    float factor_head = leading_half(whole);
    precise float factor_rest = (factor.high - factor_head) + factor.low;
    precise float high = bell * factor_head;
    precise float low = bell * factor_rest + bell_rest * whole;
    shifted = sum;
    return Double(high, low);
}

#define GELU_END 0x41600000 // 14: above it gelu(x) rounds to x, below -14 it is nearer to zero than 2^-126
#define GELU_IS_LINE 0x41000000 // 8: above it gelu(x) rounds to x
#define GELU_HALF 0x2b800000 // 2^-40: nearer to zero gelu(x) rounds to x / 2, and parts of quotients would be denormal

// Where |x| is at least 8 or below 2^-40, or x is not a number: tail * 2^-count is what gelu_tail gave.
uint rare_gelu(uint x, float tail, int count)
{
    int magnitude = int(x & MAGNITUDE_F32);
    int bits = int(x) >= 0 ? magnitude : floatBitsToInt(tail) - (count << 23);
    bits = magnitude < GELU_HALF ? magnitude - 0x00800000 : bits;
    bits = bits < int(SMALLEST_NORMAL_F32) ? 0 : bits;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : uint(bits) | (x & SIGN_F32);
}

// Below zero the tail is the result, above zero it is taken from x. Largest error over all 2^32 inputs: 0.8456 ULP, at -2.19685292
// (0xc00c993d). 92 float and 9 integer operations where 2^-40 <= |x| < 8.
uint gelu_f32(uint x)
{
    int magnitude = int(x & MAGNITUDE_F32);
    float shifted;
    Double tail = gelu_tail(intBitsToFloat(min(magnitude, GELU_END)), shifted);
    float scale = intBitsToFloat(int(ONE_F32) - (floatBitsToInt(shifted) << 23));
    precise float base = intBitsToFloat(max(int(x), 0));
    precise float difference = exact_product_plus(-tail.high, scale, base);
    precise float lost = exact_product_plus(-tail.high, scale, base - difference);
    precise float value = difference + exact_product_plus(-tail.low, scale, lost);
    uint result = floatBitsToUint(value);
    if (magnitude < GELU_HALF || magnitude >= GELU_IS_LINE) {
        precise float sum = tail.high + tail.low;
        result = rare_gelu(x, sum, floatBitsToInt(shifted) - 0x4b400000);
    }
    return result;
}
FLOAT16_FORM_1(gelu)

#endif
