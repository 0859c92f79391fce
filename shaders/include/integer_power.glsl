// Powers of integers.
//
// With an integer exponent all is integer arithmetic: results wrap, and what would be 1 divided by 0 is 0, as by DIVIDE.
// With a float exponent the result is the true value truncated toward zero and saturated, NaN being 0, as of a conversion
// from floats. It is exact where the exponent is an integer; else |x|^y = 2^(y * log2 |x|) is computed in fixed point with
// 64 bits behind the point, within a relative 2^-56, and made 2^-55 to 2^-54 larger: roots that are integers come out as
// such, and so does what lies less than 2^-53 below an integer above 1.
#ifndef INTEGER_POWER_GLSL
#define INTEGER_POWER_GLSL

#include "integer_arithmetic.glsl"
#include "integer_division.glsl"
#include "negation.glsl"
#include "power.glsl"

// base^exponent modulo 2^32: one or two products for each bit of the exponent.
uint wrapping_power(uint base, uint exponent) {
    uint result = 1u;
    while (exponent != 0u) {
        result *= (exponent & 1u) != 0u ? base : 1u;
        base *= base;
        exponent >>= 1;
    }
    return result;
}

// 1 / base^count truncated toward zero, for a count above zero: only bases of 1 and -1 leave anything.
uint inverse_power(uint base, uint count) {
    uint sign = (count & 1u) != 0u ? base : 1u;
    return base == 1u || base == 0xffffffffu ? sign : 0u;
}

uint power_u32_by_u32(uint x, uint y) { return wrapping_power(x, y); }
uint power_i32_by_u32(uint x, uint y) { return wrapping_power(x, y); }
uint power_i32_by_i32(uint x, uint y) { return int(y) < 0 ? inverse_power(x, y) : wrapping_power(x, y); }
// The largest unsigned number is not -1.
uint power_u32_by_i32(uint x, uint y) { return int(y) < 0 ? uint(x == 1u) : wrapping_power(x, y); }

// a * b, at most 2^32 - 1, which counts as infinite: it stays when it is multiplied by more than 1.
uint saturating_product(uint a, uint b) {
    uint high, low;
    umulExtended(a, b, high, low);
    return high != 0u ? 0xffffffffu : low;
}

// base^count for a count below 32, at most 2^32 - 1; base is above 1.
uint saturating_power(uint base, uint count) {
    uint result = 1u;
    while (count != 0u) {
        result = saturating_product(result, (count & 1u) != 0u ? base : 1u);
        base = saturating_product(base, base);
        count >>= 1;
    }
    return result;
}

// a * b of fractions in units of 2^-64, up to 3 units too small. 12 operations.
uvec2 fraction_product(uvec2 a, uvec2 b) {
    uint high, low, first, second, dropped;
    umulExtended(a.y, b.y, high, low);
    umulExtended(a.y, b.x, first, dropped);
    umulExtended(a.x, b.y, second, dropped);
    uint sum = low + first;
    uint total = sum + second;
    return uvec2(total, high + uint(sum < low) + uint(total < second));
}

// log2(m / 2^31) of 2^31 <= m < 2^32, in units of 2^-64, within 2^-60: 2 / ln 2 * (t + t^3 / 3 + …), t = (m - 1) / (m + 1).
uvec2 logarithm_fraction_bits(uint m) {
    uint numerator = m - 0x80000000u;
    uvec2 denominator = uvec2(numerator, 1u); // m + 2^31
    Division_u64 first = division_u64(uvec2(0u, numerator), denominator);
    uvec2 rest = first.remainder;
    uvec2 second = divide_u64(uvec2(rest.x << 31, (rest.y << 31) | (rest.x >> 1)), denominator);
    uvec2 t = uvec2(second.x << 1, first.quotient.x);
    uvec2 square = fraction_product(t, t);
    uvec2 sum = uvec2(0x90690690u, 0x06906906u);
    sum = add_u64(uvec2(0x306eb3e4u, 0x06eb3e45u), fraction_product(square, sum));
    sum = add_u64(uvec2(0x50750750u, 0x07507507u), fraction_product(square, sum));
    sum = add_u64(uvec2(0x1f07c1f0u, 0x07c1f07cu), fraction_product(square, sum));
    sum = add_u64(uvec2(0x21084211u, 0x08421084u), fraction_product(square, sum));
    sum = add_u64(uvec2(0x8d3dcb09u, 0x08d3dcb0u), fraction_product(square, sum));
    sum = add_u64(uvec2(0xd097b426u, 0x097b425eu), fraction_product(square, sum));
    sum = add_u64(uvec2(0xd70a3d71u, 0x0a3d70a3u), fraction_product(square, sum));
    sum = add_u64(uvec2(0x8590b216u, 0x0b21642cu), fraction_product(square, sum));
    sum = add_u64(uvec2(0x30c30c31u, 0x0c30c30cu), fraction_product(square, sum));
    sum = add_u64(uvec2(0x50d79436u, 0x0d79435eu), fraction_product(square, sum));
    sum = add_u64(uvec2(0x0f0f0f0fu, 0x0f0f0f0fu), fraction_product(square, sum));
    sum = add_u64(uvec2(0x11111111u, 0x11111111u), fraction_product(square, sum));
    sum = add_u64(uvec2(0xb13b13b1u, 0x13b13b13u), fraction_product(square, sum));
    sum = add_u64(uvec2(0x5d1745d1u, 0x1745d174u), fraction_product(square, sum));
    sum = add_u64(uvec2(0x71c71c72u, 0x1c71c71cu), fraction_product(square, sum));
    sum = add_u64(uvec2(0x92492492u, 0x24924924u), fraction_product(square, sum));
    sum = add_u64(uvec2(0x33333333u, 0x33333333u), fraction_product(square, sum));
    sum = add_u64(uvec2(0x55555555u, 0x55555555u), fraction_product(square, sum));
    sum = fraction_product(square, sum);
    // 2 / ln 2 is 2 and a fraction.
    uvec2 linear = add_u64(add_u64(t, t), fraction_product(t, uvec2(0x705fc2efu, 0xe2a8eca5u)));
    return add_u64(linear, fraction_product(linear, sum));
}

// 2^f / 2 of a fraction f in units of 2^-64, in the same units, within 2^-61.
uvec2 half_power_of_two(uvec2 f) {
    uvec2 x = fraction_product(f, uvec2(0xd1cf79acu, 0xb17217f7u)); // ln 2
    uvec2 sum = uvec2(0x00000b41u, 0x00000000u);
    sum = add_u64(uvec2(0x0000ca96u, 0x00000000u), fraction_product(x, sum));
    sum = add_u64(uvec2(0x000d73fau, 0x00000000u), fraction_product(x, sum));
    sum = add_u64(uvec2(0x00d73f9fu, 0x00000000u), fraction_product(x, sum));
    sum = add_u64(uvec2(0x0c9cba54u, 0x00000000u), fraction_product(x, sum));
    sum = add_u64(uvec2(0xb092309du, 0x00000000u), fraction_product(x, sum));
    sum = add_u64(uvec2(0xf76c77fcu, 0x00000008u), fraction_product(x, sum));
    sum = add_u64(uvec2(0x99159fd5u, 0x0000006bu), fraction_product(x, sum));
    sum = add_u64(uvec2(0x93edde28u, 0x0000049fu), fraction_product(x, sum));
    sum = add_u64(uvec2(0xc74aad8eu, 0x00002e3bu), fraction_product(x, sum));
    sum = add_u64(uvec2(0x01a01a02u, 0x0001a01au), fraction_product(x, sum));
    sum = add_u64(uvec2(0x0d00d00du, 0x000d00d0u), fraction_product(x, sum));
    sum = add_u64(uvec2(0x5b05b05bu, 0x005b05b0u), fraction_product(x, sum));
    sum = add_u64(uvec2(0x22222222u, 0x02222222u), fraction_product(x, sum));
    sum = add_u64(uvec2(0xaaaaaaabu, 0x0aaaaaaau), fraction_product(x, sum));
    sum = add_u64(uvec2(0xaaaaaaabu, 0x2aaaaaaau), fraction_product(x, sum));
    sum = add_u64(uvec2(0x00000000u, 0x80000000u), fraction_product(x, sum));
    uvec2 above_one = add_u64(x, fraction_product(x, fraction_product(x, sum)));
    return uvec2((above_one.x >> 1) | (above_one.y << 31), 0x80000000u | (above_one.y >> 1));
}

// base^y of a base above 1 and a positive y that is not integral, below 32; truncated, at most 2^32 - 1.
uint truncated_power(uint base, uint y) {
    int whole = findMSB(base);
    uvec2 fraction = logarithm_fraction_bits(base << uint(31 - whole));
    // y = significand / 2^behind; below 1/32 it gives less than 2.
    int exponent = int(y >> 23) - 127;
    uint significand = (y & 0x007fffffu) | 0x00800000u;
    uint behind = uint(min(max(23 - exponent, 19), 28));
    // significand * log2(base), 64 of its bits behind the point, then divided by 2^behind.
    uint carry, low, high, middle;
    umulExtended(significand, fraction.x, carry, low);
    umulExtended(significand, fraction.y, high, middle);
    middle += carry;
    high += uint(middle < carry) + significand * uint(whole);
    uint integral = high >> behind;
    uvec2 rest = uvec2((middle << (32u - behind)) | (low >> behind), (high << (32u - behind)) | (middle >> behind));
    uvec2 power = half_power_of_two(rest);
    // 2^-55 of 2^f / 2 is at most 2^-55, or 2^9 units.
    uvec2 raised = add_u64(power, uvec2(0x200u, 0u));
    raised = raised.y < power.y ? uvec2(0xffffffffu) : raised;
    uint result = raised.y >> (31u - min(integral, 31u));
    return exponent < -5 ? 1u : (integral > 31u ? 0xffffffffu : result);
}

// |x|^y of an integer, truncated, for an exponent above zero or NaN, at most 2^32 - 1; 0 where the power of x is NaN.
uint magnitude_of_power(uint base, bool is_negative, uint y, Parity parity) {
    int magnitude = int(y & MAGNITUDE_F32);
    bool is_far = magnitude >= 0x42000000; // 32
    uint count = is_far ? 31u : ((y & 0x007fffffu) | 0x00800000u) >> uint(min(max(150 - (magnitude >> 23), 0), 31));
    uint result = parity.is_integral ? saturating_power(max(base, 2u), count) : truncated_power(max(base, 2u), y);
    result = is_far ? 0xffffffffu : result;
    bool is_nan = magnitude > int(INFINITY_F32) || (is_negative && !parity.is_integral && magnitude < int(INFINITY_F32));
    return is_nan ? 0u : (base < 2u ? base : result);
}

// x^y of an integer, given as magnitude and sign, and a float; limited to highest and, below zero, -lowest.
uint bounded_power(uint base, bool is_negative, uint y, uint highest, uint lowest) {
    Parity parity = parity_from_f32(y);
    uint bits = without_denormal(y);
    bool is_zero = (bits & MAGNITUDE_F32) == 0u;
    uint result = magnitude_of_power(base, is_negative, bits, parity);
    // Below zero only 1 and -1 leave anything, and 0 gives infinity.
    bool is_below = int(bits) < 0 && int(bits & MAGNITUDE_F32) <= int(INFINITY_F32);
    uint inverse = base == 0u ? 0xffffffffu : (base == 1u ? result : 0u);
    result = is_below ? inverse : result;
    bool negates = is_negative && parity.is_odd;
    result = min(result, negates ? lowest : highest);
    result = negates ? ~result + 1u : result;
    return is_zero || (base == 1u && !is_negative) ? 1u : result;
}

uint power_u32_by_f32(uint x, uint y) { return bounded_power(x, false, y, 0xffffffffu, 0u); }
uint power_i32_by_f32(uint x, uint y) {
    return bounded_power(absolute_i32(x), int(x) < 0, y, 0x7fffffffu, 0x80000000u);
}
uint power_u32_by_f16(uint x, uint y) { return power_u32_by_f32(x, float32_from_float16(y)); }
uint power_i32_by_f16(uint x, uint y) { return power_i32_by_f32(x, float32_from_float16(y)); }

#endif
