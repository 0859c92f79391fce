// Natural logarithms.
#ifndef LOGARITHM_GLSL
#define LOGARITHM_GLSL

#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"

// ln 2 in two words. The first has 16 bits: times an exponent it is exact.
#define LN2_16_BITS 0.693145751953125
#define LN2_REST 1.42860677e-6

// ln x of a positive normal number, by its bits; of other bits, some finite number.
//
// x = 2^k * (1 + f) with -5/16 <= f < 3/8, and ln x = k * ln 2 + f - f^2 / 2 + f^2 / 2 * g(f): the large terms are summed
// exactly, the small ones in one word. 46 operations. Method: Cody and Waite's reduction; the polynomial g was found
// by Sollya's fpminimax (S. Chevillard et al., 2010) for the smallest relative error of the logarithm, which is 2^-28.5.
float log_normal(uint x)
{
    int k = (int(x) - 0x3f300000) >> 23;
    precise float f = uintBitsToFloat(x - uint(k << 23)) - 1.0; // exact
    precise float exponent = float(k);

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
    precise float whole = exponent * LN2_16_BITS;
    precise float total = whole + leading;
    precise float total_error = leading - (total - whole);
    precise float low = square * g + square_rest * (g - 1.0);
    low = low + leading_error;
    low = low + exponent * LN2_REST;
    low = low + total_error;
    precise float sum = total + low;
    return sum;
}

// ln x. Of +-0 -infinity, of what is below zero NaN.
// Largest error over all 2^32 inputs: 0.589 ULP, at 1.37488925 (0x3faffc5f). 54 operations.
uint log_f32(uint x)
{
    precise float value = log_normal(x);
    int bits = int(x);
    bool is_zero = (x & INFINITY_F32) == 0u; // or denormal
    uint special = bits == int(INFINITY_F32) ? INFINITY_F32 : NAN_F32;
    special = is_zero ? SIGN_F32 | INFINITY_F32 : special;
    bool is_normal = bits >= int(SMALLEST_NORMAL_F32) && bits < int(INFINITY_F32);
    return is_normal ? floatBitsToUint(value) : special;
}
FLOAT16_FORM_1(log)

#endif
