// Powers of floats: 2^(y * log2 |x|), in fixed point where 24 bits would not do.
//
// y * log2 |x| reaches 128, so that the logarithm must be right to 2^-33 of itself for a result that is right in its last
// place. Two words of 24 bits cost three times as many operations as one; products of integers have 64 bits at once.
//
// |x| = 2^k * m with 1 <= m < 2, and m = (1 + r) / c with c = 1, 183/256 or 1/2, so that |r| < 0.177: r is an exact multiple of
// 2^-31. log2(1 + r) = r * P(r), and P is a polynomial of which the first coefficients are fixed point numbers and the others,
// whose part is small, floats. Then log2 |x| is a fixed point number as well, with 64 bits behind the point. y times that has 32,
// and those give the result's significand by a polynomial in integers.
// (Reduction by factors of few bits: W. F. Wong, E. Goto, «Fast hardware-based algorithms for elementary function computations
// using rectangular multipliers», 1994. 183/256 was chosen because its logarithm needs no second word: it is within 2^-37 of a
// multiple of 2^-32. The minimax polynomials with coefficients of given precision are made by Sollya's fpminimax: N. Brisebarre,
// S. Chevillard, «Efficient polynomial L-infinity approximations», 2007.)
#ifndef POWER_GLSL
#define POWER_GLSL

#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"
#include "quick_division.glsl"

// An exponent of any data type: |y| = fraction * 2^(shift - 32). From 1/4 to 2^30 fraction has 31 bits; below, shift is 0, and
// fraction is rounded below 2^-8.
struct Exponent {
    uint fraction;
    uint multiplier; // 2^shift
    uint sign;       // all bits of it
    int magnitude;   // floor(log2 |y|); ZERO_EXPONENT of zero, INFINITE_EXPONENT of infinities and NaN
};
#define ZERO_EXPONENT -127
#define INFINITE_EXPONENT 128
// From 2^22 on, powers of numbers below 1/2 and from 2 on are zero or infinite.
#define LARGE_EXPONENT 22
// From 2^30 on fraction has 32 bits; from 2^31 on powers of all numbers but 1 are zero or infinite.
#define HUGE_EXPONENT 30

// Of an exponent's bits, the first of 31 being set.
Exponent exponent_from_parts(uint significand, int magnitude, uint sign) {
    int leading_bit = magnitude + 2;
    int shift = min(max(leading_bit, 0), 31);
    int dropped = min(max(-leading_bit, 0), 31);
    uint fraction = (significand + ((1u << dropped) >> 1)) >> dropped;
    fraction = magnitude >= HUGE_EXPONENT ? significand << 1 : fraction;
    return Exponent(fraction, 1u << shift, sign, magnitude);
}
Exponent exponent_from_f32(uint y) {
    uint significand = ((y & 0x007fffffu) | 0x00800000u) << 7;
    return exponent_from_parts(significand, int((y & MAGNITUDE_F32) >> 23) - 127, uint(int(y) >> 31));
}
Exponent exponent_from_f16(uint y) { return exponent_from_f32(float32_from_float16(y)); }
Exponent exponent_from_integer(uint y, uint sign) {
    int leading_bit = findMSB(y | 1u);
    return exponent_from_parts((y << (31 - leading_bit)) >> 1, y == 0u ? ZERO_EXPONENT : leading_bit, sign);
}
Exponent exponent_from_u32(uint y) { return exponent_from_integer(y, 0u); }
Exponent exponent_from_i32(uint y) {
    uint sign = uint(int(y) >> 31);
    return exponent_from_integer((y ^ sign) - sign, sign);
}

// What counts of an exponent for powers of numbers below zero, and of NaN.
struct Parity {
    bool is_integral, is_odd, is_nan;
};
Parity parity_from_f32(uint y) {
    int magnitude = int(y & MAGNITUDE_F32);
    uint significand = (y & 0x007fffffu) | 0x00800000u;
    // How many of the 24 bits lie behind the point: 24 stands for all, and more.
    int behind = min(max(150 - (magnitude >> 23), 0), 24);
    bool is_integral = (significand & ((1u << behind) - 1u)) == 0u;
    bool is_odd = is_integral && magnitude < 0x4b800000 && ((significand >> behind) & 1u) != 0u;
    return Parity(is_integral, is_odd, magnitude > int(INFINITY_F32));
}
Parity parity_from_f16(uint y) { return parity_from_f32(float32_from_float16(y)); }
Parity parity_from_i32(uint y) { return Parity(true, (y & 1u) != 0u, false); }
Parity parity_from_u32(uint y) { return Parity(true, (y & 1u) != 0u, false); }

// A number without sign in units of 2^-64, in two words.
struct Fraction {
    uint high, low;
};

// The largest m, as 24 bits, for which c is 1, and the least for which it is 1/2: 2 / (1 + c) and 2 / (1/2 + c) for the c between.
#define LAST_OF_FIRST_SECTOR 0x009548e4
#define FIRST_OF_LAST_SECTOR 0x00d2ba09

// log2 m of a normal number's significand m, by its bits. Relative to log2 m or, for the last numbers before 2, to log2(m/2) within
// 2^-33.1. 35 operations.
Fraction binary_logarithm(uint x) {
    uint significand = (x & 0x007fffffu) | 0x00800000u;
    bool is_first = int(significand) <= LAST_OF_FIRST_SECTOR;
    bool is_last = int(significand) >= FIRST_OF_LAST_SECTOR;
    // In units of 2^-31: c * m less one, or one more, which is the same for a word.
    int r = int(significand * (is_first ? 256u : (is_last ? 128u : 183u)) + 0x80000000u);
    int r_steep = r << 2; // in units of 2^-33

    // The coefficients of r^4 to r^9, for r in units of 2^-23; they make a number between 0.25 and 0.34.
    precise float t = float(r >> 8);
    precise float series = 3.45379695e-29 + t * -3.74841537e-36;
    series = -3.04850336e-22 + t * series;
    series = 2.92461355e-15 + t * series;
    series = -2.86644521e-08 + t * series;
    series = 0.28854236 + t * series;

    // That in units of 2^-29; then in units of 2^-30 to 2^-33. P is 3/2 - 3/4 r and what the last sum is.
    int polynomial = int((floatBitsToUint(series) << 4) + 0x20000000u);
    int upper, unused;
    imulExtended(polynomial, r_steep, upper, unused);
    polynomial = upper - 387270463;
    imulExtended(polynomial, r_steep, upper, unused);
    polynomial = upper + 1032721309;
    imulExtended(polynomial, r_steep, upper, unused);
    polynomial = upper + 123061463;
    imulExtended(polynomial, r_steep, upper, unused);
    int triple = 3 * r;
    polynomial = upper - 492245850 - triple;

    // r * P, and what c stands for: nothing where it is a power of two.
    int low;
    imulExtended(polynomial, r, upper, low);
    uint offset = is_first ? 0u : (is_last ? 0u : 0x7bfb186cu);
    return Fraction(uint(upper + triple) + offset, uint(low));
}

// |x|^y, as far as numbers go.
struct Power {
    uint bits;    // where exponent is between -126 and 127
    int exponent; // floor(y * log2 |x|); of the largest exponents it lacks before
    int before;   // floor(2^shift * log2 |x|)
};

// 2^fraction - 1 of a fraction in units of 2^-32, in units of 2^-31 and half of the last of 24 bits more: within 2^-28.6.
// 12 operations.
uint binary_exponential(uint fraction) {
    uint unused, value;
    umulExtended(466052u, fraction, value, unused);
    umulExtended(value + 2671400u, fraction, value, unused);
    umulExtended(value + 20785163u, fraction, value, unused);
    umulExtended(value + 119149561u, fraction, value, unused);
    umulExtended(value + 515889649u, fraction, value, unused);
    umulExtended(value + 1488521814u, fraction, value, unused);
    return value + 0x84u;
}

// |x|^y of a positive normal |x|, by its bits. 75 operations beside those on y alone.
Power finite_power(uint x, Exponent y) {
    Fraction fraction = binary_logarithm(x);
    // log2 |x| * 2^shift, in units of 2^-32.
    uint carried, behind;
    umulExtended(fraction.high, y.multiplier, carried, behind);
    int before = (int(x - ONE_F32) >> 23) * int(y.multiplier) + int(carried);
    uint unused;
    umulExtended(fraction.low, y.multiplier, carried, unused);
    behind += carried;

    // Times y's fraction: a whole number and 32 bits behind the point.
    int whole, part;
    imulExtended(int(y.fraction), before, whole, part);
    umulExtended(y.fraction, behind, carried, unused);
    uint fraction_bits = uint(part) + carried;
    whole += fraction_bits < carried ? 1 : 0;
    // Below zero: all bits are turned, which is one unit too little.
    whole ^= int(y.sign);
    fraction_bits ^= y.sign;
    uint bits = (binary_exponential(fraction_bits) >> 8) + (uint(whole + 127) << 23);
    return Power(bits, whole, before);
}

// Powers of anything that is no positive normal number, by infinite and large exponents, and too large and too small ones.
uint special_power(uint x, Exponent y, Parity parity, Power power) {
    uint base = without_denormal(x & MAGNITUDE_F32);
    bool x_is_special = base == 0u || base == INFINITY_F32;
    bool y_is_infinite = y.magnitude == INFINITE_EXPONENT;
    int missing = y.magnitude == HUGE_EXPONENT ? (power.before ^ int(y.sign)) - int(y.sign) : 0;
    int exponent = power.exponent + missing;
    uint bits = power.bits + uint(missing << 23);
    bool is_far = int(base) < 0x3f000000 || int(base) >= 0x40000000;
    bool is_beyond = exponent > 127 || exponent < -127 || y.magnitude > HUGE_EXPONENT;
    is_beyond = is_beyond || y.magnitude >= LARGE_EXPONENT && is_far;
    // It grows where |x| > 1 and y > 0, or neither.
    bool grows = (int(base) > int(ONE_F32)) == (y.sign == 0u);
    uint result = x_is_special || is_beyond ? (grows ? INFINITY_F32 : 0u) : without_denormal(bits);
    result = base == ONE_F32 ? ONE_F32 : result;
    bool x_is_negative = int(x) < 0;
    result = x_is_negative && parity.is_odd ? result | SIGN_F32 : result;
    bool is_nan = x_is_negative && !x_is_special && !y_is_infinite && !parity.is_integral;
    is_nan = is_nan || int(base) > int(INFINITY_F32) || parity.is_nan;
    result = is_nan ? NAN_F32 : result;
    return y.magnitude == ZERO_EXPONENT || x == ONE_F32 ? ONE_F32 : result;
}

// For exponents y of which 2 |y| is 1, 2, 4 or 6.
#define SIMPLE_HALF 0x3f000000
#define SIMPLE_TWO 0x40000000
#define SIMPLE_THREE 0x40400000

// m, its square or its cube in two words, for 1 <= m < 2: those of its first 8 bits are exact. 9 operations.
Double whole_power(uint m, int degree) {
    precise float number = uintBitsToFloat(m);
    precise float head = uintBitsToFloat(m & 0xffff0000u);
    precise float rest = number - head;
    precise float square = head * head;
    precise float both = number + head;
    precise float square_rest = rest * both;
    if (degree == SIMPLE_TWO) { return fast_two_sum(square, square_rest); }
    precise float cube = square * head;
    precise float cube_rest = rest * (number * both + square);
    if (degree == SIMPLE_THREE) { return fast_two_sum(cube, cube_rest); }
    return Double(number, 0.0);
}

// x^y of a positive normal x, by its bits: within 2^-29.
Power simple_power(uint x, uint y) {
    int exponent = int(x - ONE_F32) >> 23;
    uint m = (x & 0x007fffffu) | ONE_F32;
    int degree = int(y & MAGNITUDE_F32);
    Double value;
    if (degree == SIMPLE_HALF) {
        Double root = quick_square_root(uintBitsToFloat(m + uint((exponent & 1) << 23)));
        value = fast_two_sum(root.high, root.low);
        exponent >>= 1;
    } else {
        value = whole_power(m, degree);
        exponent *= degree == SIMPLE_THREE ? 3 : (degree == SIMPLE_TWO ? 2 : 1);
    }
    precise float sum = value.high;
    if (int(y) < 0) {
        Double inverse = quick_quotient(Double(1.0, 0.0), value);
        sum = inverse.high + inverse.low;
        exponent = -exponent;
    }
    uint bits = floatBitsToUint(sum);
    return Power(bits + uint(exponent << 23), int(bits >> 23) + exponent - 127, 0);
}

// Whether there is more to x^y than finite_power. x is a positive normal number: from 2^23 below infinity's bits.
bool is_special_power(uint x, Exponent y, Power power) {
    bool x_is_normal = int(x - SMALLEST_NORMAL_F32 + SIGN_F32) < int(INFINITY_F32 - SMALLEST_NORMAL_F32 + SIGN_F32);
    bool is_finite = uint(power.exponent + 126) <= 253u;
    return !x_is_normal || !is_finite || y.magnitude >= LARGE_EXPONENT;
}

// power_f32_by_exponent; float16 bases are in half_power.glsl, integer ones in integer_power.glsl. x^y has the special values of
// C's pow (ISO C, Annex F): see the operator's declaration.
// Largest errors found in 280 million pairs: 0.703 ULP for exponents below 2^-8 (0x0090a54b ^ 0x35e42c05), whose fixed point form is
// rounded, and 0.641 for others (0x3f95f16a ^ 0xc406c38f). 95 operations.
#define POWER_BY(form) \
    uint power_f32_by_##form(uint x, uint y) { \
        Exponent exponent = exponent_from_##form(y); \
        Power power = finite_power(x & MAGNITUDE_F32, exponent); \
        if (is_special_power(x, exponent, power)) { \
            return special_power(x, exponent, parity_from_##form(y), power); \
        } \
        return power.bits; \
    }
POWER_BY(f32)
POWER_BY(f16)
POWER_BY(i32)
POWER_BY(u32)

// x^y for an exponent that all elements share; special is y where that is simple, else 0 (special_attribute.glsl). Simple exponents:
// largest error found in every 61st float32 0.536 ULP (0x2a9df22b ^ 3), and 11 to 55 operations; others as above, and 85.
uint constant_power_f32(uint x, uint exponent_bits, uint special) {
    uint y = special == 0u ? exponent_bits : special;
    Exponent exponent = exponent_from_f32(y);
    Power power;
    if (special != 0u) {
        power = simple_power(x & MAGNITUDE_F32, y);
    } else {
        power = finite_power(x & MAGNITUDE_F32, exponent);
    }
    if (is_special_power(x, exponent, power)) { return special_power(x, exponent, parity_from_f32(y), power); }
    return power.bits;
}
uint constant_power_f16(uint x, uint exponent_bits, uint special) {
    return float16_from_float32(constant_power_f32(float32_from_float16(x), exponent_bits, special));
}

#endif
