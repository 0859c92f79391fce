// Integers times scales, exactly: quotients of such products rounded once to an integer, and the products rounded once to
// float32. Integers of 96 bits are uvec3, of which x is the low word.
//
// The quotient is found as in quantization.glsl: an estimate is off by at most one, and an exact remainder decides (D. E. Knuth,
// «The Art of Computer Programming», volume 2, 4.3.1). FLOAT32 denormals count as zeros of their sign.
#ifndef EXACT_SCALING_GLSL
#define EXACT_SCALING_GLSL

#include "quantization.glsl"

uvec3 wide_product(uvec2 a, uint b) {
    uint high, low, upper_high, upper_low;
    umulExtended(a.x, b, high, low);
    umulExtended(a.y, b, upper_high, upper_low);
    uint middle = high + upper_low;
    return uvec3(low, middle, upper_high + uint(middle < high));
}

uvec3 wide_sum(uvec3 a, uvec3 b) {
    uint low = a.x + b.x;
    uint carry = uint(low < a.x);
    uint without_carry = a.y + b.y;
    uint middle = without_carry + carry;
    uint next_carry = uint(without_carry < a.y || middle < carry);
    return uvec3(low, middle, a.z + b.z + next_carry);
}

uvec3 wide_difference(uvec3 a, uvec3 b) {
    uint borrow = uint(a.x < b.x);
    uint without_borrow = a.y - b.y;
    uint next_borrow = uint(a.y < b.y || without_borrow < borrow);
    return uvec3(a.x - b.x, without_borrow - borrow, a.z - b.z - next_borrow);
}

bool is_wide_zero(uvec3 x) { return (x.x | x.y | x.z) == 0u; }

// For a count below 96. (A shift by 32 is undefined.)
uvec3 shifted_left(uvec3 x, uint count) {
    uint words = count >> 5;
    uint bits = count & 31u;
    uint low = words == 0u ? x.x : 0u;
    uint middle = words == 0u ? x.y : words == 1u ? x.x : 0u;
    uint high = words == 0u ? x.z : words == 1u ? x.y : x.x;
    uint back = 31u - bits;
    return uvec3(low << bits, (middle << bits) | ((low >> 1) >> back), (high << bits) | ((middle >> 1) >> back));
}

// The number of the highest bit; 0 for zero.
int highest_bit(uvec3 x) {
    int low = x.y != 0u ? 32 + findMSB(x.y) : findMSB(x.x | 1u);
    return x.z != 0u ? 64 + findMSB(x.z) : low;
}

// The leading 24 bits, as a float of [1, 2).
float leading_fraction(uvec3 x, int highest) {
    uint leading = shifted_left(x, uint(95 - highest)).z;
    return uintBitsToFloat(((leading >> 8) & 0x7fffffu) | ONE_F32);
}

// The integer nearest to dividend / divisor * 2^exponent, halves to even; LARGE_QUOTIENT from 2^11 on at the latest. The dividend
// has at most 81 bits, the divisor 55 and is not zero: nothing below has more than 96.
int nearest_wide_quotient(uvec3 dividend, uvec3 divisor, int exponent) {
    int dividend_bit = highest_bit(dividend);
    int divisor_bit = highest_bit(divisor);
    int above = dividend_bit - divisor_bit + exponent; // the quotient lies between 2^(above - 1) and 2^(above + 1)
    precise float ratio
        = leading_fraction(dividend, dividend_bit) * reciprocal_estimate(leading_fraction(divisor, divisor_bit));
    precise float shifted = uintBitsToFloat(floatBitsToUint(ratio) + (uint(min(max(above, -3), 11)) << 23)) + 12582912.0;
    uint n = floatBitsToUint(shifted) - 0x4b400000u;

    uvec3 twice = shifted_left(dividend, uint(min(max(exponent, 0) + 1, 95)));
    uvec3 by = shifted_left(divisor, uint(min(max(-exponent, 0), 95)));
    uint odd_number = 2u * n + 1u; // the half above n, doubled
    uvec3 half_above = wide_product(by.xy, odd_number);
    half_above.z += by.z * odd_number;
    uvec3 over = wide_difference(twice, half_above); // twice what the dividend is above that half
    uvec3 under = wide_sum(over, shifted_left(by, 1u)); // and above the half below n
    bool odd = (n & 1u) != 0u;
    bool up = is_wide_zero(over) ? odd : int(over.z) >= 0;
    bool down = is_wide_zero(under) ? odd : int(under.z) < 0;
    int quotient = int(n) + int(up) - int(down);
    return above < -2 ? 0 : above > 10 ? LARGE_QUOTIENT : quotient;
}

// The bits of a float32 that is zero, finite, infinite or NaN as the product of two numbers is, and has its sign.
uint kind_of_product(uint a, uint b) {
    int a_magnitude = int(a & MAGNITUDE_F32);
    int b_magnitude = int(b & MAGNITUDE_F32);
    int larger = max(a_magnitude, b_magnitude);
    bool is_zero = min(a_magnitude, b_magnitude) < int(SMALLEST_NORMAL_F32);
    bool is_infinite = larger >= int(INFINITY_F32);
    bool is_nan = larger > int(INFINITY_F32) || (is_zero && is_infinite);
    uint magnitude = is_infinite ? INFINITY_F32 : is_zero ? 0u : ONE_F32;
    return is_nan ? NAN_F32 : ((a ^ b) & SIGN_F32) | magnitude;
}
uint kind_of_integer(bool is_negative, bool is_zero) { return is_zero ? 0u : is_negative ? SIGN_F32 | ONE_F32 : ONE_F32; }

// round(sum * a_scale * b_scale / scale), for a sum of 32 bits with a sign.
int rounded_scaled_quotient(uint sum, uint a_scale, uint b_scale, uint scale) {
    bool is_negative = int(sum) < 0;
    uint kind = kind_of_product(kind_of_product(kind_of_integer(is_negative, sum == 0u), a_scale), b_scale);
    uint high, low;
    umulExtended(is_negative ? 0u - sum : sum, SIGNIFICAND_F32(a_scale), high, low);
    uvec3 dividend = wide_product(uvec2(low, high), SIGNIFICAND_F32(b_scale));
    uvec3 divisor = uvec3(SIGNIFICAND_F32(scale), 0u, 0u);
    int exponent = EXPONENT_F32(a_scale) + EXPONENT_F32(b_scale) - EXPONENT_F32(scale) - 150;
    return with_sign(special_quotient(nearest_wide_quotient(dividend, divisor, exponent), kind, scale), kind ^ scale);
}

// round(sum * source_scale / (count * scale)), for a magnitude of at most 39 bits and a count from 1 to 2^31.
int rounded_mean_quotient(bool is_negative, uvec2 magnitude, uint source_scale, uint count, uint scale) {
    bool is_zero = (magnitude.x | magnitude.y) == 0u;
    uint kind = kind_of_product(kind_of_integer(is_negative, is_zero), source_scale);
    uvec3 dividend = wide_product(magnitude, SIGNIFICAND_F32(source_scale));
    uint high, low;
    umulExtended(count, SIGNIFICAND_F32(scale), high, low);
    int exponent = EXPONENT_F32(source_scale) - EXPONENT_F32(scale);
    int quotient = nearest_wide_quotient(dividend, uvec3(low, high, 0u), exponent);
    return with_sign(special_quotient(quotient, kind, scale), kind ^ scale);
}

// sum * a_scale * b_scale as float32, rounded once to nearest even, for a sum of 96 bits with a sign.
uint scaled_wide_sum(uvec3 sum, uint a_scale, uint b_scale) {
    bool is_negative = int(sum.z) < 0;
    uvec3 magnitude = is_negative ? wide_difference(uvec3(0u), sum) : sum;
    uint scales_high, scales_low;
    umulExtended(SIGNIFICAND_F32(a_scale), SIGNIFICAND_F32(b_scale), scales_high, scales_low);
    // The product has five words: `lowest`, and four above it.
    uvec3 first = wide_product(magnitude.xy, scales_low);
    uint first_high, first_low;
    umulExtended(magnitude.z, scales_low, first_high, first_low);
    uint third = first.z + first_low;
    uint fourth = first_high + uint(third < first_low);
    uvec3 second = wide_product(magnitude.xy, scales_high);
    uint second_high, second_low;
    umulExtended(magnitude.z, scales_high, second_high, second_low);
    uint second_third = second.z + second_low;
    uint second_fourth = second_high + uint(second_third < second_low);
    uint lowest = first.x;
    uvec3 middle = wide_sum(uvec3(first.y, third, 0u), uvec3(second.x, second.y, 0u));
    uint carried = fourth + middle.z;
    uint word = carried + second_third;
    uvec4 above = uvec4(middle.x, middle.y, word, second_fourth + uint(carried < fourth) + uint(word < carried));

    int position = 128;
    for (uint moves = 0u; moves < 4u; ++moves) {
        if (above.w == 0u) {
            above = uvec4(lowest, above.x, above.y, above.z);
            lowest = 0u;
            position -= 32;
        }
    }
    int highest = findMSB(above.w | 1u);
    uint leading = (above.w << uint(31 - highest)) | ((above.z >> 1) >> uint(highest));
    uint below = (above.z << uint(31 - highest)) | above.y | above.x | lowest;
    uint kept = leading >> 8;
    uint rest = ((leading & 0xffu) << 1) | uint(below != 0u);
    kept += uint(rest > 0x100u || (rest == 0x100u && (kept & 1u) != 0u));
    // The highest bit of what is kept adds 1 to the exponent; having rounded up to a power of two adds another.
    int exponent = position + highest + EXPONENT_F32(a_scale) + EXPONENT_F32(b_scale) - 174;
    int bits = (min(max(exponent, -2), 253) << 23) + int(kept);
    uint finite = exponent > 253 ? INFINITY_F32 : bits < int(SMALLEST_NORMAL_F32) ? 0u : uint(bits);
    uint kind = kind_of_product(kind_of_product(kind_of_integer(is_negative, is_wide_zero(sum)), a_scale), b_scale);
    return (kind & MAGNITUDE_F32) == ONE_F32 ? (kind & SIGN_F32) | finite : kind;
}

#endif
