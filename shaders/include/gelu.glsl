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
#include "exponential.glsl"
#include "float16.glsl"
#include "float32.glsl"

// t * w(t) for a = head + rest, head being a multiple of 2^-8 below 16; its two words are not normalized.
Double gelu_factor(float a, float head, float rest)
{
    // t as quick_quotient has it, but that the divisor's halves are known.
    precise float divisor = head + 2.0;
    precise float inverse = uintBitsToFloat(0x7ef33400u - floatBitsToUint(divisor + rest));
    inverse = inverse * (2.00127991 - (divisor + rest) * inverse);
    inverse = inverse * (2.00000072 - (divisor + rest) * inverse);
    precise float t_head = leading_half(a * inverse);
    precise float t_rest = ((a - t_head * divisor) - t_head * rest) * inverse;
    precise float t = t_head + t_rest;

    precise float middle = (t_head - 0.5625) + t_rest;
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
    precise float line = 1.0 - 0.625 * short_t;
    precise float bend = series - 0.625 * ((t_head - short_t) + t_rest);
    precise float high = t_head * line;
    precise float low = t_rest * line + t * bend;
    return Double(high, low);
}

// a * Q(a) = (high + low) * 2^exponent for 2^-40 <= a <= 14. The square of the head is exact, and so is the product of the
// heads of both factors.
Double gelu_tail(float a, out int exponent)
{
    precise float head = (a + 49152.0) - 49152.0; // 1.5 * 2^15 leaves the nearest multiple of 2^-8
    precise float rest = a - head;
    precise float square = -0.5 * head * head;
    precise float square_rest = -0.5 * rest * (a + head);
    Double bell = exponential(fast_two_sum(square, square_rest), exponent);
    Double factor = gelu_factor(a, head, rest);

    precise float factor_head = leading_half(factor.high + factor.low);
    precise float factor_rest = (factor.high - factor_head) + factor.low;
    precise float bell_head = leading_half(bell.high);
    precise float bell_rest = (bell.high - bell_head) + bell.low;
    precise float high = bell_head * factor_head;
    precise float low = bell_head * factor_rest + bell_rest * (factor_head + factor_rest);
    return Double(high, low);
}

#define GELU_END 0x41600000 // 14: above it gelu(x) rounds to x, below -14 it is nearer to zero than 2^-126
#define GELU_HALF 0x2b800000 // 2^-40: nearer to zero gelu(x) rounds to x / 2, and parts of quotients would be denormal

// Largest error found: 0.682 ULP (of 0xc1336678), among all float32 from -2^-11 down and samples of the others.
// 135 operations.
uint gelu_f32(uint x)
{
    int magnitude = int(x & MAGNITUDE_F32);
    bool is_positive = int(x) >= 0;
    int exponent;
    Double tail = gelu_tail(intBitsToFloat(min(magnitude, GELU_END)), exponent);
    // Above zero the tail is scaled, and taken from a; below, the result is.
    precise float scale = is_positive ? power_of_two(max(exponent, -64)) : 1.0;
    precise float a = is_positive ? intBitsToFloat(magnitude) : 0.0;
    precise float part = tail.high * scale;
    precise float part_rest = tail.low * scale;
    precise float difference = a - part;
    precise float value = difference + (((a - difference) - part) - part_rest);
    int bits = int(floatBitsToUint(value) & MAGNITUDE_F32);
    bits += is_positive ? 0 : exponent << 23;
    bits = magnitude < GELU_HALF ? magnitude - 0x00800000 : bits;
    bits = is_positive && magnitude >= GELU_END ? magnitude : bits;
    bits = bits < int(SMALLEST_NORMAL_F32) ? 0 : bits;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : uint(bits) | (x & SIGN_F32);
}
FLOAT16_FORM_1(gelu)

#endif
