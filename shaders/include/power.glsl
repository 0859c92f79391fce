// Powers of floats: e^(y * ln |x|), the logarithm, the product and the exponential in two words each.
//
// y * ln |x| reaches 89, so that the logarithm must be right to 2^-34 of itself for a result that is right in its last
// place. The method is that of powf in fdlibm (K. C. Ng, Sun Microsystems, 1993; there for float32 by I. L. Taylor,
// Cygnus): s = f / (2 + f) in two words, and ln(1 + f) = 2/3 * s * (3 + s^2 + …), whose large products are exact because
// their factors have 12 bits. Here without division, in the natural logarithm, and with the exponential of its own.
#ifndef POWER_GLSL
#define POWER_GLSL

#include "error_free.glsl"
#include "exponential.glsl"
#include "float16.glsl"
#include "float32.glsl"

// An exponent of any data type.
struct Exponent {
    uint bits; // as float32, rounded; denormals are zeros
    float rest; // what the rounding left, of an integer of more than 24 bits
    bool is_integral;
    bool is_odd;
};

Exponent exponent_from_f32(uint y)
{
    int magnitude = int(y & MAGNITUDE_F32);
    uint significand = (y & 0x007fffffu) | 0x00800000u;
    // How many of the 24 bits lie behind the point: 24 stands for all, and more.
    int behind = min(max(150 - (magnitude >> 23), 0), 24);
    bool is_integral = (significand & ((1u << behind) - 1u)) == 0u;
    bool is_odd = is_integral && magnitude < 0x4b800000 && ((significand >> behind) & 1u) != 0u;
    return Exponent(without_denormal(y), 0.0, is_integral, is_odd);
}
Exponent exponent_from_f16(uint y) { return exponent_from_f32(float32_from_float16(y)); }

// Of an integer's upper 20 bits, given as a number, and its lower 12.
Exponent exponent_from_parts(int upper, uint y)
{
    precise float high = float(upper) * 4096.0;
    Double sum = fast_two_sum(high, float(int(y & 0xfffu)));
    return Exponent(floatBitsToUint(sum.high), sum.low, true, (y & 1u) != 0u);
}
Exponent exponent_from_i32(uint y) { return exponent_from_parts(int(y) >> 12, y); }
Exponent exponent_from_u32(uint y) { return exponent_from_parts(int(y >> 12), y); }

// A number with 12 bits in the first word, nearest to it. 4 operations.
Double in_halves(float high, float low)
{
    precise float first = uintBitsToFloat((floatBitsToUint(high) + 0x800u) & 0xfffff000u);
    precise float second = (high - first) + low;
    return Double(first, second);
}

// ln x of a positive normal number, by its bits, within a relative 2^-34. 60 operations.
Double logarithm_in_two_words(uint x)
{
    // x = 2^k * (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and d = 2 + f.
    int k = (int(x) - 0x3f3504f3) >> 23;
    precise float exponent = float(k);
    precise float f = uintBitsToFloat(x - uint(k << 23)) - 1.0; // exact
    precise float d = 2.0 + f;
    precise float d_rest = f - (d - 2.0);

    // 1 / d: the best linear guess, then Newton's iteration twice, within 2^-24. Then s = f / d in two words.
    precise float inverse = 0.985062135 - 0.239016173 * d;
    inverse = inverse * (2.0 - d * inverse);
    inverse = inverse * (2.0 - d * inverse);
    precise float guess = f * inverse;
    precise float s_high = in_halves(guess, 0.0).high;
    Double d_halves = in_halves(d, d_rest);
    precise float s_low = ((f - s_high * d_halves.high) - s_high * d_halves.low) * inverse;
    precise float s = s_high + s_low;

    // 3 + s^2 + s^4 * r(s^2), where s^2 = s_high^2 + s_low * (s_high + s).
    precise float square = s * s;
    precise float r = 0.333535999 + square * 0.277800411;
    r = 0.428566128 + square * r;
    r = 0.600000024 + square * r;
    precise float small = square * square * r + s_low * (s_high + s);
    precise float high_square = s_high * s_high; // exact
    precise float series = 3.0 + high_square;
    precise float series_rest = (high_square - (series - 3.0)) + small;
    Double series_halves = in_halves(series, series_rest);

    // 2/3 * s times that; 2/3 in two words as well.
    precise float product = s_high * series_halves.high; // exact
    precise float product_rest = s_low * series_halves.high + s * series_halves.low;
    Double product_halves = in_halves(product + product_rest, 0.0);
    precise float product_low = product_rest - (product_halves.high - product);
    precise float leading = 0.666748047 * product_halves.high; // exact
    precise float leading_rest = 0.666666687 * product_low - 8.13802108e-05 * product_halves.high;

    Double total = fast_two_sum(exponent * 0.693145752, leading);
    precise float low = (leading_rest + exponent * 1.42860677e-06) + total.low;
    return Double(total.high, low);
}

// |x|^y of a positive normal |x|, by its bits, and a finite y.
uint finite_power(uint x, float y, float y_rest)
{
    Double logarithm = logarithm_in_two_words(x);
    Double logarithm_halves = in_halves(logarithm.high, logarithm.low);
    Double y_halves = in_halves(y, y_rest);
    precise float product = y_halves.high * logarithm_halves.high; // exact
    precise float product_rest = y_halves.low * logarithm_halves.high + y * logarithm_halves.low;
    // What is beyond float32's range by far is brought where the exponential can take it.
    bool is_far = int(floatBitsToUint(product) & MAGNITUDE_F32) >= 0x42dc0000;
    float bounded = uintBitsToFloat((floatBitsToUint(product) & SIGN_F32) | 0x42dc0000u);
    Double argument = fast_two_sum(is_far ? bounded : product, is_far ? 0.0 : product_rest);
    int exponent;
    Double power = exponential(argument, exponent);
    precise float value = power.high + power.low;
    uint bits = floatBitsToUint(value);
    int biased = int(bits >> 23) + exponent;
    uint result = bits + (uint(exponent) << 23);
    return biased > 254 ? INFINITY_F32 : (biased < 1 ? 0u : result);
}

// x^y with the special values of C's pow (ISO C, Annex F): see the operator's declaration.
// Largest error found in 140 million pairs: 0.642 ULP, of 0.776200473^-350.135437. 190 operations.
uint power(uint x, Exponent y)
{
    uint base = without_denormal(x & MAGNITUDE_F32);
    uint y_magnitude = y.bits & MAGNITUDE_F32;
    bool x_is_special = base == 0u || base == INFINITY_F32;
    bool y_is_special = y_magnitude == INFINITY_F32;
    uint result = finite_power(base, uintBitsToFloat(y.bits), y.rest);
    // 0 and infinity of either: it grows where |x| > 1 and y > 0, or neither.
    bool grows = (int(base) > int(ONE_F32)) == (int(y.bits) >= 0);
    result = x_is_special || y_is_special ? (grows ? INFINITY_F32 : 0u) : result;
    result = base == ONE_F32 ? ONE_F32 : result;
    bool x_is_negative = int(x) < 0;
    result = x_is_negative && y.is_odd ? result | SIGN_F32 : result;
    bool is_nan = x_is_negative && !x_is_special && !y_is_special && !y.is_integral;
    is_nan = is_nan || int(base) > int(INFINITY_F32) || int(y_magnitude) > int(INFINITY_F32);
    result = is_nan ? NAN_F32 : result;
    return y_magnitude == 0u || x == ONE_F32 ? ONE_F32 : result;
}

// power_base_by_exponent, for every form of float base; integer bases are in integer_power.glsl.
#define POWER_BY(form) \
    uint power_f32_by_##form(uint x, uint y) { return power(x, exponent_from_##form(y)); } \
    uint power_f16_by_##form(uint x, uint y) \
    { \
        return float16_from_float32(power(float32_from_float16(x), exponent_from_##form(y))); \
    }
POWER_BY(f32)
POWER_BY(f16)
POWER_BY(i32)
POWER_BY(u32)

#endif
