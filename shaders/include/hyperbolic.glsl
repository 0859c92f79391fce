// Hyperbolic functions.
#ifndef HYPERBOLIC_GLSL
#define HYPERBOLIC_GLSL

#include "exponential.glsl"
#include "sigmoid.glsl"
#include "significand.glsl"

// tanh(x) for x from 2^-40 on and for 0, from e^-2x = (power.high + power.low) * 2^exponent, where power.high has at most 12
// bits. |low| < |high| / 8. 32 operations.
Double hyperbolic_tangent(Double x, Double power, int exponent)
{
    // 2 / (1 + e^-2x) - 1, whose first word is exact.
    Double inverse = logistic(power, exponent);
    precise float twice = inverse.high + inverse.high;
    precise float high = twice - 1.0;
    precise float low = twice * inverse.low;
    // Below 0.2 too much of that cancels: a minimax polynomial of degree 7, within 2^-29 (relative).
    precise float square = x.high * x.high;
    precise float cubic = -5.26655801e-02 * square + 1.33313403e-01;
    cubic = cubic * square - 3.33333284e-01;
    cubic = cubic * (square * x.high) + x.low;
    bool is_small = floatBitsToInt(x.high) < 0x3e4ccccd;
    return Double(is_small ? x.high : high, is_small ? cubic : low);
}

// Largest error: 0.706 ULP, at 0.212340787 (0x3e596fdd). 56 float and 16 integer operations.
uint tanh_f32(uint x)
{
    int magnitude = int(x & MAGNITUDE_F32);
    float bounded = intBitsToFloat(min(magnitude, 0x41200000)); // 10, where the result is 1
    precise float doubled = bounded * -2.0;
    int exponent;
    Double power = quick_exponential(doubled, exponent);
    Double value = hyperbolic_tangent(Double(bounded, 0.0), power, exponent);
    precise float sum = value.high + value.low;
    uint result = magnitude < int(SMALLEST_NORMAL_F32) ? 0u : floatBitsToUint(sum);
    result |= x & SIGN_F32;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : result;
}
FLOAT16_FORM_1(tanh)

// alpha * tanh(beta * x). Largest error among 50 million random triples: 0.576 ULP. 85 float and 61 integer operations.
uint scaled_tanh_f32(uint x, uint alpha, uint beta)
{
    Scaled number = scaled(x);
    Scaled inner = scaled(beta);
    Scaled outer = scaled(alpha);
    Double t = bounded_product(inner, number, 0x42200000); // 40
    precise float doubled_high = t.high * -2.0;
    precise float doubled_low = t.low * -2.0;
    int power_exponent;
    Double power = shortened(exponential(Double(doubled_high, doubled_low), power_exponent));
    Double value = hyperbolic_tangent(t, power, power_exponent);
    // Where Beta * x is below 2^-40, tanh of 2^-40 and more was taken: there it is proportional to its argument.
    int exponent = number.exponent + inner.exponent;
    uint result = rounded_product(shortened(outer.significand), value, outer.exponent + min(exponent + 40, 0));
    result ^= (x ^ beta) & SIGN_F32;
    // tanh(Beta * x) is zero where a factor is.
    uint stand_in = exponent < EXPONENT_OF_ZERO / 2 ? 0u : ONE_F32;
    return has_product(x, beta) && has_product(alpha, stand_in) ? result : NAN_F32;
}
uint scaled_tanh_f16(uint x, uint alpha, uint beta)
{
    return float16_from_float32(scaled_tanh_f32(float32_from_float16(x), alpha, beta));
}

// sinh(x) = (sine.high + sine.low) * 2^(exponent - 1), and cosh likewise.
struct Hyperbolic {
    Double sine;
    Double cosine;
    int exponent;
};

// For 0 <= x <= 110. With x = k * ln 2 + r, e^x = 2^k * (cosh r + sinh r) and e^-x = 2^-k * (cosh r - sinh r): no division,
// and no cancellation near zero. r = a + b as in
// exponential_parts, cosh r = 1 + a^2/2 + even, sinh r = a + odd.
Hyperbolic hyperbolic(float x)
{
    precise float shifted = x * 1.44269504 + 12582912.0;
    precise float count = shifted - 12582912.0;
    int exponent = floatBitsToInt(shifted) - 0x4b400000;
    precise float head = x - count * 0.693145752;
    precise float tail = count * 1.42860677e-06;
    precise float nearest = (head + 6144.0) - 6144.0;
    // Near zero a + b would cancel what was rounded in b.
    float a = int(floatBitsToUint(head) & MAGNITUDE_F32) < 0x3c800000 ? 0.0 : nearest; // 2^-6
    precise float b = (head - a) - tail;

    precise float r = head - tail;
    precise float square = r * r;
    precise float even = 1.39357650e-03 * square + 4.16664556e-02;
    even = b * (a + 0.5 * b) + even * (square * square);
    precise float odd = 1.99534013e-04 * square + 8.33319779e-03;
    odd = odd * square + 1.66666672e-01;
    odd = b + odd * (square * r);

    float ratio = power_of_two(-2 * min(exponent, 30)); // 4^-k, e^-x beside e^x
    precise float cosine_of_a = 1.0 + 0.5 * a * a; // exact, as the next two are
    precise float growing = cosine_of_a + a;
    precise float falling = ratio * (cosine_of_a - a);
    precise float sum = 1.0 + ratio;
    precise float difference = 1.0 - ratio;
    Double sine = fast_two_sum(growing, -falling);
    Double cosine = fast_two_sum(growing, falling);
    precise float sine_low = sine.low + (difference * even + sum * odd);
    precise float cosine_low = cosine.low + (sum * even + difference * odd);
    return Hyperbolic(Double(sine.high, sine_low), Double(cosine.high, cosine_low), exponent);
}

// The largest x whose sinh and cosh are finite.
#define LARGEST_HYPERBOLIC 0x42b2d4fc

// Largest error: 0.566 ULP, at 0.348417014 (0x3eb263b7). 44 float and 21 integer operations.
uint sinh_f32(uint x)
{
    int magnitude = int(x & MAGNITUDE_F32);
    Hyperbolic parts = hyperbolic(intBitsToFloat(magnitude));
    precise float sum = parts.sine.high + parts.sine.low;
    uint result = floatBitsToUint(sum) + (uint(parts.exponent - 1) << 23);
    result = magnitude > LARGEST_HYPERBOLIC ? INFINITY_F32 : result;
    result = magnitude < int(SMALLEST_NORMAL_F32) ? 0u : result;
    result |= x & SIGN_F32;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : result;
}
FLOAT16_FORM_1(sinh)

// Largest error: 0.533 ULP, at 5.21575737 (0x40a6e77c). 43 float and 17 integer operations.
uint cosh_f32(uint x)
{
    int magnitude = int(x & MAGNITUDE_F32);
    Hyperbolic parts = hyperbolic(intBitsToFloat(magnitude));
    precise float sum = parts.cosine.high + parts.cosine.low;
    uint result = floatBitsToUint(sum) + (uint(parts.exponent - 1) << 23);
    result = magnitude > LARGEST_HYPERBOLIC ? INFINITY_F32 : result;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : result;
}
FLOAT16_FORM_1(cosh)

#endif
