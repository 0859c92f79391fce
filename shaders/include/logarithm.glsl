// Natural logarithms.
#ifndef LOGARITHM_GLSL
#define LOGARITHM_GLSL

#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"

// ln 2 in two words. The first has 16 bits: times an exponent it is exact.
#define LN2_16_BITS 0.693145751953125
#define LN2_REST 1.42860677e-6

// exponent * ln 2 + ln(1 + f), for -5/16 <= f <= 3/8: high + low, high being rounded from all but the smallest terms.
//
// ln(1 + f) = f - f^2 / 2 + f^2 / 2 * g(f): the large terms are summed exactly, the small ones in one word. The polynomial
// g was found by Sollya's fpminimax (S. Chevillard et al., 2010) for the smallest relative error of the logarithm, which
// is 2^-28.5. 39 operations.
Double logarithm_sum(float exponent, float f) {
    // f^2 / 2: the square of the leading 12 bits is exact; the rest is 2^-11 times as large.
    precise float f_high = leading_half(f);
    precise float half_high = 0.5 * f_high;
    precise float square = half_high * f_high;
    precise float square_rest = (f - f_high) * (0.5 * f + half_high);

    precise float g = -0.243097961 + f * 0.176672310;
    g = 0.228008658 + f * g;
    g = -0.246555120 + f * g;
    g = 0.285250753 + f * g;
    g = -0.333435416 + f * g;
    g = 0.400010407 + f * g;
    g = -0.499999166 + f * g;
    g = 0.666666627 + f * g;
    g = f * g;

    precise float leading = f - square;
    precise float leading_error = (f - leading) - square;
    Double total = fast_two_sum(exponent * LN2_16_BITS, leading);
    precise float low = square * g + square_rest * (g - 1.0);
    low = low + leading_error;
    low = low + exponent * LN2_REST;
    low = low + total.low;
    return Double(total.high, low);
}

// x = 2^k * (1 + f), for positive normal numbers x, by their bits, and for those beyond the largest exponent.
// (W. J. Cody and W. Waite, «Software Manual for the Elementary Functions», 1980.)
int logarithm_exponent(uint x) { return (int(x) - 0x3f300000) >> 23; }
float logarithm_fraction(uint x, int k) {
    precise float f = uintBitsToFloat(x - uint(k << 23)) - 1.0; // exact
    return f;
}

// ln x of a positive normal number, by its bits; of other bits, some finite number: k * ln 2 + f - f^2 * q(f), of which the first two
// terms are added exactly, and the small ones in one word. The minimax polynomial q, made by Lawson's weighted iteration (C. L.
// Lawson, 1961), has a relative error of 2^-27.7 in the logarithm. 32 operations.
float quick_log_normal(uint x) {
    int k = logarithm_exponent(x);
    precise float exponent = float(k);
    precise float f = logarithm_fraction(x, k);
    precise float q = -0.13686271 + f * 0.0980940685;
    q = 0.128460765 + f * q;
    q = -0.140532359 + f * q;
    q = 0.166343272 + f * q;
    q = -0.200082943 + f * q;
    q = 0.250009209 + f * q;
    q = -0.33333239 + f * q;
    q = 0.49999994 + f * q;
    precise float bend = f * (f * q);
    precise float total = exact_product_plus(exponent, LN2_16_BITS, f);
    precise float total_rest = f - exact_product_plus(exponent, -LN2_16_BITS, total);
    precise float low = (total_rest + exponent * LN2_REST) - bend;
    precise float sum = total + low;
    return sum;
}

// What a small change of f adds to ln(1 + f): change / (1 + f), to a relative 0.02. 5 operations.
float logarithm_change(float f, float change) {
    precise float inverse = (1.0 - f) * (1.0 + f * f);
    precise float product = change * inverse;
    return product;
}

// ln((1 + u.high + u.low) * 2^exponent), for 2^-60 <= u.high < 2^128 and |u.low| <= 2^-23 * u.high, where u.low is 0 from
// u.high = 2^64 on. As two words, like logarithm_sum. Where u is small it is f itself: nothing is lost to the 1.
// 66 operations.
Double log1p(Double u, int exponent) {
    // Exact although the larger word may be the second one: z - 1 is a number of 24 bits, for z < 2^24.
    Double z = fast_two_sum(1.0, u.high);
    precise float z_low = z.low + u.low;
    int k = logarithm_exponent(floatBitsToUint(z.high));
    precise float z_fraction = logarithm_fraction(floatBitsToUint(z.high), k);
    precise float z_fraction_low = z_low * power_of_two(-min(k, 64));
    float f = k == 0 ? u.high : z_fraction;
    float f_low = k == 0 ? u.low : z_fraction_low;
    Double total = logarithm_sum(float(k + exponent), f);
    precise float total_low = total.low + logarithm_change(f, f_low);
    return Double(total.high, total_low);
}

// ln x. Of +-0 -infinity, of what is below zero NaN.
// Largest error over all 2^32 inputs: 0.8574 ULP, at 1.40242338 (0x3fb3829c). 40 operations.
uint log_f32(uint x) {
    precise float value = quick_log_normal(x);
    int bits = int(x);
    bool is_zero = (x & INFINITY_F32) == 0u; // or denormal
    uint special = bits == int(INFINITY_F32) ? INFINITY_F32 : NAN_F32;
    special = is_zero ? SIGN_F32 | INFINITY_F32 : special;
    bool is_normal = bits >= int(SMALLEST_NORMAL_F32) && bits < int(INFINITY_F32);
    return is_normal ? floatBitsToUint(value) : special;
}
FLOAT16_FORM_1(log)

#endif
