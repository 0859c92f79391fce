// The exponential function, in two words and in one.
//
// x = k * ln 2 + r with an integer k and |r| <= 0.3467; then e^x = 2^k * e^r. ln 2 is split into 16 bits and a rest, so that
// x minus k times the first part is exact (W. J. Cody, W. Waite, «Software Manual for the Elementary Functions», 1980).
//
// r itself is split into a, a multiple of 2^-11, and a small b. 1 + a + a^2/2 is then exact in one word, and everything else
//     e^r - (1 + a + a^2/2) = b + b * (a + b/2) + r^3 * (1/6 + r/24 + …)
// is below 2^-7, so that its roundings hardly count: one rounding decides the result. (The arrangement is that of
// P. T. P. Tang, «Table-driven implementation of the exponential function», 1989, with a quadratic in place of the table.)
#ifndef EXPONENTIAL_GLSL
#define EXPONENTIAL_GLSL

#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"

// e^x = (power + b + rest) * 2^exponent: power is 1 + a + a^2/2, a multiple of 2^-23 between 0.70 and 1.42. |b| < 2^-11,
// |rest| < 2^-7. Relative error: at most 2^-28.5.
struct Exponential {
    float power, b, rest;
    int exponent;
};

// For |x.high| <= 354, |x.low| <= 2^-17; outside that range some bits or other. 27 operations.
// (glslang 12 crashes on sums of the later members where x was constructed in the same function.)
Exponential exponential_parts(Double x) {
    // 1.5 * 2^23: added to a number below 2^22, it leaves the nearest integer in the last bits of the sum.
    precise float shifted = x.high * 1.44269504 + 12582912.0;
    precise float count = shifted - 12582912.0;
    int exponent = floatBitsToInt(shifted) - 0x4b400000;
    precise float head = exact_product_plus(count, -0.693145752, x.high); // and so is the difference
    precise float tail = count * 1.42860677e-06 - x.low;

    // 1.5 * 2^12 leaves the nearest multiple of 2^-11.
    precise float a = (head + 6144.0) - 6144.0;
    precise float b = (head - a) - tail;

    // The minimax polynomial with single precision coefficients (Sollya's fpminimax: N. Brisebarre, S. Chevillard, 2007).
    precise float r = head - tail;
    precise float cubic = 1.99534115e-04 * r + 1.39357650e-03;
    cubic = cubic * r + 8.33319779e-03;
    cubic = cubic * r + 4.16664556e-02;
    cubic = cubic * r + 1.66666672e-01;
    cubic = cubic * r * (r * r);
    precise float rest = b * exact_product_plus(0.5, b, a) + cubic;
    precise float power = exact_product_plus(0.5 * a, a, 1.0 + a); // exact
    return Exponential(power, b, rest, exponent);
}

// e^(x.high + x.low) = (high + low) * 2^exponent in the same range. high is a multiple of 2^-23 between 0.70 and 1.42,
// |low| < 2^-7: high is not high + low rounded, but fast_two_sum(high, low) is exact. Relative error: at most 2^-28.5;
// rounded to 24 bits 0.531 ULP. 28 operations.
Double exponential(Double x, out int exponent) {
    Exponential e = exponential_parts(x);
    exponent = e.exponent;
    precise float low = e.b + e.rest;
    return Double(e.power, low);
}
Double exponential(float x, out int exponent) { return exponential(Double(x, 0.0), exponent); }

// e^-x = power * 2^-count, for |x.high| <= 177 and |x.low| <= 2^-17: power.high is a multiple of 2^-11 between 0.70 and 1.42, so
// that its product with a number of 12 bits is exact; |power.low| < 0.07. exponent_bits is count * 2^23, what a number's bits
// change by when it is multiplied by 2^count. Relative error: 2^-26.3. 24 operations.
struct Decay {
    Double power;
    int exponent_bits;
};
Decay decay(Double x) {
    precise float shifted = x.high * 1.44269504 + 12582912.0;
    precise float count = shifted - 12582912.0;
    precise float head = exact_product_plus(count, -0.693145752, x.high);
    precise float tail = count * 1.42860677e-06 - x.low;
    precise float a = (head + 6144.0) - 6144.0;
    precise float b = (head - a) - tail;

    precise float r = head - tail;
    precise float square = r * r;
    precise float cubic = 1.39357650e-03 - 1.99534115e-04 * r;
    cubic = cubic * r - 8.33319779e-03;
    cubic = cubic * r + 4.16664556e-02;
    cubic = cubic * r - 1.66666672e-01;
    cubic = cubic * r * square;
    precise float high = 1.0 - a;
    precise float low = exact_product_plus(0.5, square, cubic - b);
    return Decay(Double(high, low), floatBitsToInt(shifted) << 23);
}
Decay decay(float x) { return decay(Double(x, 0.0)); }

// The same for |x| <= 177 in one word, with a relative error of 2^-26 and |power.low| < 0.08. 22 operations.
Decay quick_decay(float x) {
    precise float shifted = x * 1.44269504 + 12582912.0;
    precise float count = shifted - 12582912.0;
    precise float head = exact_product_plus(count, -0.693145752, x);
    precise float tail = count * 1.42860677e-06;
    precise float a = (head + 6144.0) - 6144.0;
    precise float b = (head - a) - tail;
    precise float r = head - tail;
    precise float quadratic = 0.00138204196 * r - 0.00836868025;
    quadratic = quadratic * r + 0.0416682698;
    quadratic = quadratic * r - 0.166665211;
    quadratic = quadratic * r + 0.49999994;
    precise float high = 1.0 - a;
    precise float low = r * r * quadratic - b;
    return Decay(Double(high, low), floatBitsToInt(shifted) << 23);
}

// The largest x whose e^x is finite, and the one furthest from zero whose e^x is not below 2^-126.
#define LARGEST_EXPONENT 0x42b17217
#define LOWEST_EXPONENT 0xc2aeac4fu

// e^x. Largest error over all 2^32 inputs: 0.5309 ULP, at -5.88687229 (0xc0bc6142). 30 float and 10 integer operations.
uint exp_f32(uint x) {
    int exponent;
    Double power = exponential(uintBitsToFloat(x), exponent);
    precise float sum = power.high + power.low;
    uint result = floatBitsToUint(sum) + (uint(exponent) << 23);
    int signed_bits = int(x);
    result = signed_bits > LARGEST_EXPONENT ? INFINITY_F32 : result;
    // Of two negative numbers, the one further from zero has the greater bits.
    result = signed_bits > int(LOWEST_EXPONENT) && signed_bits < 0 ? 0u : result;
    return int(x & MAGNITUDE_F32) > int(INFINITY_F32) ? NAN_F32 : result;
}

#endif
