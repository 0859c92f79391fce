// Powers of FLOAT16 bases: 2^(y * log2 |x|) in plain float32, for results of 11 bits need no more.
//
// |x| = 2^k * m with m between sqrt(1/2) and sqrt(2); log2 m = f * P(f) with f = m - 1, which is exact, so that the logarithm has
// its relative error near 1 as well. The product with y, z, has the result's exponent as its nearest integer, and the rest goes
// into another polynomial.
//
// No result is off by more than 0.5097 ULP of float16: of all 31,743 values the logarithm is off by at most 2.626e-7 of itself, the
// product's rounding is 2^-24 more, and for every float32 z the polynomial's own error and what 3.23e-7 |z| makes of the result
// are less than 0.0097 ULP together. The largest sum is at z = 15.99996; the exponential's coefficients minimize it, rather than
// their own error, and they may be off by twice as much above a power of two as below.
// Largest errors of all 2^32 pairs of float16: 0.5073 ULP, at 0x3b8d ^ 0xd846; of all x by all integers from -40,000 to 40,000,
// beyond which powers are 0, 1 or infinite: 0.5071, at 0x3a92 ^ 44. 52 operations where x, y and the result are ordinary numbers.
// (The logarithm's is a minimax polynomial with coefficients of 24 bits, made by Sollya's fpminimax; the exponential's solves a
// linear program.)
#ifndef HALF_POWER_GLSL
#define HALF_POWER_GLSL

#include "float16.glsl"
#include "power.glsl"

// log2 of a float16's value, given as float32. Of zero -127, of infinity 128. 23 operations.
float logarithm_of_half(uint x) {
    uint offset = x - 0x3f3504f3u; // sqrt(1/2)
    precise float exponent = intBitsToFloat((int(offset) >> 23) + 0x4b400000) - 12582912.0; // 1.5 * 2^23
    precise float f = uintBitsToFloat(x - (offset & 0xff800000u)) - 1.0;
    precise float series = 0.233331606 + f * -0.144447729;
    series = -0.249052048 + f * series;
    series = 0.287211359 + f * series;
    series = -0.360233998 + f * series;
    series = 0.48091808 + f * series;
    series = -0.721352816 + f * series;
    series = 1.44269502 + f * series;
    precise float logarithm = exponent + f * series;
    return logarithm;
}

// 2^z = significand * 2^exponent, exponent being the integer nearest to z. One that does not fit is too large or too small an
// integer; of NaN it is any.
struct PowerOfTwo {
    float significand;
    int exponent;
};

// 14 operations.
PowerOfTwo power_of_two_of(float z) {
    precise float shifted = z + 12582912.0;
    precise float rest = z - (shifted - 12582912.0);
    precise float series = 0.0558927059 + rest * 0.00951755326;
    series = 0.24026148 + rest * series;
    series = 0.693127275 + rest * series;
    series = 0.999998868 + rest * series;
    return PowerOfTwo(series, floatBitsToInt(shifted) - 0x4b400000);
}

// Exponents as float32. Integers beyond 2^22 make powers of float16 values what 2^22 makes them, but for their sign.
uint wide_exponent_from_f16(uint y) { return float32_from_float16(y); }
uint wide_exponent_from_f32(uint y) { return y; }
uint wide_exponent_from_i32(uint y) { return floatBitsToUint(float(max(min(int(y), 0x400000), -0x400000))); }
uint wide_exponent_from_u32(uint y) { return floatBitsToUint(float(int(min(y, 0x400000u)))); }

// The same for those that is_ordinary_exponent accepts.
float quick_exponent_from_f16(uint y) { return quick_float32_from_float16(y); }
float quick_exponent_from_f32(uint y) { return uintBitsToFloat(y); }
float quick_exponent_from_i32(uint y) { return uintBitsToFloat(wide_exponent_from_i32(y)); }
float quick_exponent_from_u32(uint y) { return uintBitsToFloat(wide_exponent_from_u32(y)); }

bool is_ordinary_exponent_f16(uint y) { return !is_denormal_or_zero_f16(y); }
bool is_ordinary_exponent_f32(uint y) { return true; }
bool is_ordinary_exponent_i32(uint y) { return true; }
bool is_ordinary_exponent_u32(uint y) { return true; }

// x^y of any float16, by any float32, to results of any size.
uint general_power_of_half(uint x, uint y, Parity parity) {
    int base = int(x & 0x7fffu);
    precise float z = uintBitsToFloat(y) * logarithm_of_half(float32_from_float16(uint(base)));
    PowerOfTwo power = power_of_two_of(z);
    int exponent = int(without_denormal(y & MAGNITUDE_F32));
    bool x_is_special = base == 0 || base == int(INFINITY_F16);
    bool x_is_negative = (x & 0x8000u) != 0u;
    bool grows = (base > int(ONE_F16)) == (int(y) >= 0);
    bool is_beyond = x_is_special || power.exponent > 17 || power.exponent < -26;
    int clamped_exponent = max(min(power.exponent, 17), -26);
    uint finite = float16_from_float32(floatBitsToUint(power.significand) + uint(clamped_exponent << 23));
    uint result = is_beyond ? (grows ? INFINITY_F16 : 0u) : finite;
    result = base == int(ONE_F16) ? ONE_F16 : result;
    result = x_is_negative && parity.is_odd ? result | 0x8000u : result;
    bool y_is_infinite = exponent == int(INFINITY_F32);
    bool is_nan = x_is_negative && !x_is_special && !y_is_infinite && !parity.is_integral;
    is_nan = is_nan || base > int(INFINITY_F16) || parity.is_nan;
    result = is_nan ? NAN_F16 : result;
    return exponent == 0 || x == ONE_F16 ? ONE_F16 : result;
}

// The exponents of normal results, and how many there are: 2^15 times a significand up to sqrt(2) is finite.
#define LEAST_EXPONENT -13
#define EXPONENTS 29

// power_f16_by_exponent, with the special values of C's pow as those of float32. Positive normal numbers to ordinary exponents
// with normal results come from one path; its significands are rounded to nearest and, where they lie in the middle, up.
#define HALF_POWER_BY(form) \
    uint power_f16_by_##form(uint x, uint y) { \
        bool is_ordinary = uint(x - 0x400u) < 0x7800u && is_ordinary_exponent_##form(y); \
        uint base = x * 0x2000u + 0x38000000u; \
        precise float z = quick_exponent_from_##form(y) * logarithm_of_half(base); \
        PowerOfTwo power = power_of_two_of(z); \
        is_ordinary = is_ordinary && uint(power.exponent - LEAST_EXPONENT) < uint(EXPONENTS); \
        uint bits = floatBitsToUint(power.significand) + uint(power.exponent << 23); \
        uint result = quick_float16_from_float32(bits); \
        if (!is_ordinary) { \
            result = general_power_of_half(x, wide_exponent_from_##form(y), parity_from_##form(y)); \
        } \
        return result; \
    }
HALF_POWER_BY(f16)
HALF_POWER_BY(f32)
HALF_POWER_BY(i32)
HALF_POWER_BY(u32)

#endif
