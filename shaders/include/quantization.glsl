// Quotients that are rounded to integers and saturate to 8 bits, and products of integers with a scale: exact, rounded once.
//
// Quotients are those of the exact real numbers, halves to even. A float estimate of the quotient, good to a few thousandths,
// gives an integer n that is off by at most one; what is left of the dividend, dividend - n * divisor, is small and so known
// exactly from integer arithmetic modulo 2^32, and decides. (Any division with an exact remainder works so: D. E. Knuth, «The
// Art of Computer Programming», volume 2, 4.3.1.) A better estimate decides by itself but near halves (see Candidate). Naive
// drivers, which execute both sides of a branch, do without it (ON_NAIVE_DRIVER).
//
// FLOAT32 denormals count as zeros of their sign. A quotient that is NaN counts as 0; beyond LARGE_QUOTIENT, and infinite,
// it is LARGE_QUOTIENT, which saturates whatever the zero point is.
#ifndef QUANTIZATION_GLSL
#define QUANTIZATION_GLSL

#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"
#include "processors.glsl"
#include "quick_division.glsl"
#include "rounding_to_odd.glsl"

#define LARGE_QUOTIENT 1023

#define EXPONENT_F32(x) int(((x) >> 23) & 0xffu)
#define SIGNIFICAND_F32(x) (((x) & 0x7fffffu) | 0x800000u)

uint saturated_int8(int x) { return uint(min(max(x, -128), 127)); }
uint saturated_uint8(int x) { return uint(min(max(x, 0), 255)); }
uint saturated_byte(bool has_sign, int x) { return has_sign ? saturated_int8(x) : saturated_uint8(x); }

// The integer nearest to an estimate of a quotient, whether it is that of the quotient too, and if not whether that is one of
// both neighbours of the estimate, or beyond 8 bits on the same side.
struct Candidate {
    int integer;
    bool is_certain, is_near;
};

// Divisors from 2^-60 to 2^60, of either sign: those of quick_inverse, by which a denormal dividend gives next to nothing.
bool has_quick_inverse(uint divisor) { return 2u * divisor - 0x43000000u < 0x78000000u; }

// `quotient` is the estimate, off by at most 2^-19 * m, and m_squared is m * m, each rounded a few times.
//
// What the estimate exceeds the integer by is d, exactly. The integer is the quotient's where |d| + 2^-19 * m < 1/2. The square
// of that sum is at most d^2 + 2^-19 * m + 2^-38 * m^2, as |d| <= 1/2; and 2^-19 * m is at most 2^-14 + 2^-25 +
// (2^-26 - 2^-38) * m^2, as a geometric mean is at most the arithmetic one. So it is where d^2 + 2^-26 * m^2 < 1/4 - 2^-14; another
// 2^-20 are for what is rounded here, and for denormals, which a device may flush. An estimate that is infinite or NaN, or not
// below 2^12, never is certain, as NaN of either sign is more than any bound among unsigned integers.
//
// What is not certain is computed exactly, and what is certain is right: no result depends on how a device rounds.
Candidate candidate(float quotient, float m_squared, bool has_inverse) {
    precise float shifted = quotient + 12582912.0; // 1.5 * 2^23
    precise float integer = shifted - 12582912.0;
    precise float d = quotient - integer;
    precise float check = d * d + m_squared * 1.490116119384765625e-08; // 2^-26
    bool is_certain = floatBitsToUint(check) < 0x3e7fefc0u && has_inverse; // 1/4 - 2^-14 - 2^-20
    bool is_near = floatBitsToUint(check) < 0x47800000u && has_inverse; // 2^16: |quotient| < 2^21
    return Candidate(floatBitsToInt(shifted) - 0x4b400000, is_certain, is_near);
}

// The estimate of a quotient, off by at most 2^-19 of itself: 2^-19.5 for the inverse, and two roundings.
float quick_quotient(float dividend, uint divisor) {
    precise float quotient = dividend * quick_inverse(uintBitsToFloat(divisor));
    return quotient;
}
Candidate candidate(float quotient, bool has_inverse) {
    precise float m_squared = quotient * quotient;
    return candidate(quotient, m_squared, has_inverse);
}

// The integer of a quotient whose estimate is near, but not certain. 18 operations. Below 2^10 such an estimate is within 1/32 of
// half an odd number h. The dividend less h * divisor tells the side: h has 11 bits, so that its products with both halves
// of the divisor are exact; so is the first difference, which is below 2^-4 of the dividend and a multiple of its last place;
// and rounding the second one leaves its sign. From 2^10 on this may be the wrong side, but both are beyond 8 bits.
int quotient_near_half(float quotient, float dividend, uint divisor) {
    precise float shifted = (quotient - 0.5) + 12582912.0; // 1.5 * 2^23
    precise float h = (shifted - 12582912.0) + 0.5;
    precise float by = uintBitsToFloat(divisor);
    precise float head = leading_half(by);
    precise float tail = by - head;
    uint rest = floatBitsToUint(exact_product_plus(-h, tail, exact_product_plus(-h, head, dividend)));
    int lower = floatBitsToInt(shifted) - 0x4b400000;
    bool is_above = int(rest ^ divisor) >= 0;
    return lower + ((rest & MAGNITUDE_F32) == 0u ? lower & 1 : int(is_above));
}

// The integer nearest to dividend / divisor, halves to even.
//   significand   the dividend's first 24 bits or so, as a float of [1, 2)
//   exponent      what its exponent is above the divisor's: the quotient is (significand / [1, 2)) * 2^exponent
//   quarters      the low 32 bits of 4 * dividend, the lowest of them set where any bit lies below
//   divisor       an integer of 24 bits
int nearest_quotient(float significand, int exponent, uint quarters, uint divisor) {
    precise float ratio = significand * reciprocal_estimate(uintBitsToFloat((divisor & 0x7fffffu) | ONE_F32));
    precise float shifted = uintBitsToFloat(floatBitsToUint(ratio) + (uint(min(max(exponent, -3), 11)) << 23)) + 12582912.0;
    uint n = floatBitsToUint(shifted) - 0x4b400000u;
    int rest = int(quarters - 4u * (n * divisor));
    int half_divisor = int(2u * divisor);
    bool odd = (n & 1u) != 0u;
    bool up = rest > half_divisor || (rest == half_divisor && odd);
    bool down = rest < -half_divisor || (rest == -half_divisor && odd);
    int quotient = int(n) + int(up) - int(down);
    return exponent < -2 ? 0 : exponent > 10 ? LARGE_QUOTIENT : quotient;
}

int with_sign(int magnitude, uint sign) { return int(sign) < 0 ? -magnitude : magnitude; }

// A quotient that is not finite divided by finite: 0 where it is zero or NaN, else infinite. `dividend` and `divisor` are bits of
// float32; for a dividend of another kind those of any number that is zero, finite, infinite or NaN when it is.
int special_quotient(int quotient, uint dividend, uint divisor) {
    int top = int(dividend & MAGNITUDE_F32);
    int bottom = int(divisor & MAGNITUDE_F32);
    bool large = top >= int(INFINITY_F32) || bottom < int(SMALLEST_NORMAL_F32);
    bool none = top < int(SMALLEST_NORMAL_F32) || top > int(INFINITY_F32) || bottom >= int(INFINITY_F32);
    return none ? 0 : large ? LARGE_QUOTIENT : quotient;
}

int exact_quotient_f32(uint x, uint scale) {
    int exponent = EXPONENT_F32(x) - EXPONENT_F32(scale);
    uint significand = SIGNIFICAND_F32(x);
    uint quarters = significand << uint(min(max(exponent + 2, 0), 31));
    float fraction = uintBitsToFloat((x & 0x7fffffu) | ONE_F32);
    int quotient = nearest_quotient(fraction, exponent, quarters, SIGNIFICAND_F32(scale));
    return with_sign(special_quotient(quotient, x, scale), x ^ scale);
}

// round(x / scale), in float32. 21 operations, near halves 39; where neither decides, 45 more.
int rounded_quotient(uint x, uint scale, bool has_inverse) {
    int integer;
    if (ON_NAIVE_DRIVER) {
        integer = exact_quotient_f32(x, scale);
    } else {
        float quotient = quick_quotient(uintBitsToFloat(x), scale);
        Candidate found = candidate(quotient, has_inverse);
        integer = found.integer;
        if (!found.is_certain) {
            integer = quotient_near_half(quotient, uintBitsToFloat(x), scale);
            if (!found.is_near) { integer = exact_quotient_f32(x, scale); }
        }
    }
    return integer;
}
int rounded_quotient_f32(uint x, uint scale) { return rounded_quotient(x, scale, has_quick_inverse(scale)); }

// Every FLOAT16 scale has a quick inverse but zero, infinity and NaN, of which none gives an estimate that is finite.
int rounded_quotient_f16(uint x, uint scale) {
    return rounded_quotient(float32_from_float16(x), float32_from_float16(scale), true);
}

int exact_quotient_i32(uint x, uint scale) {
    uint magnitude = int(x) < 0 ? 0u - x : x;
    int highest = findMSB(magnitude | 1u);
    uint leading = magnitude << uint(31 - highest);
    float fraction = uintBitsToFloat(((leading >> 8) & 0x7fffffu) | ONE_F32);
    // 4 * magnitude / 2^(the exponent of the divisor's last place)
    int shift = 152 - EXPONENT_F32(scale);
    uint dropped = uint(min(max(-shift, 0), 31));
    uint kept = magnitude >> dropped;
    uint right = kept | uint((kept << dropped) != magnitude);
    uint left = shift < 32 ? magnitude << uint(max(shift, 0) & 31) : 0u;
    int quotient = nearest_quotient(
        fraction, highest + 127 - EXPONENT_F32(scale), shift < 0 ? right : left, SIGNIFICAND_F32(scale));
    return with_sign(special_quotient(quotient, x == 0u ? 0u : ONE_F32, scale), x ^ scale);
}

// The scale is float32. 22 operations, near halves 43; else 60 more, and so near halves where an integer has more than 24 bits.
int rounded_quotient_i32(uint x, uint scale) {
    int integer;
    if (ON_NAIVE_DRIVER) {
        integer = exact_quotient_i32(x, scale);
    } else {
        float dividend = float(int(x));
        float quotient = quick_quotient(dividend, scale);
        Candidate found = candidate(quotient, has_quick_inverse(scale));
        integer = found.integer;
        if (!found.is_certain) {
            integer = quotient_near_half(quotient, dividend, scale);
            bool is_short = x + 0x1000000u <= 0x2000000u;
            if (!(found.is_near && is_short)) { integer = exact_quotient_i32(x, scale); }
        }
    }
    return integer;
}

// What (a - a_zero) * a_scale is: its sign (the highest bit), its magnitude (of 32 bits, times 2^exponent), and the bits of a
// float32 of its sign that is zero, finite, infinite or NaN as it is.
struct Term {
    uint sign, magnitude;
    int exponent;
    uint kind;
};

Term scaled_difference(int difference, uint scale) {
    uint sign = (uint(difference) ^ scale) & SIGN_F32;
    uint steps = uint(difference < 0 ? -difference : difference); // at most 255
    int biased = EXPONENT_F32(scale);
    uint magnitude = biased == 0 ? 0u : steps * SIGNIFICAND_F32(scale);
    uint infinite = int(scale & MAGNITUDE_F32) > int(INFINITY_F32) || difference == 0 ? NAN_F32 : sign | INFINITY_F32;
    uint finite = magnitude == 0u ? 0u : sign | ONE_F32;
    return Term(sign, magnitude, magnitude == 0u ? -1000 : biased, biased == 255 ? infinite : finite);
}

// What the sum of two terms is in the same sense.
uint kind_of_sum(uint a, uint b, uint sum) {
    int a_magnitude = int(a & MAGNITUDE_F32);
    int b_magnitude = int(b & MAGNITUDE_F32);
    bool opposite = a_magnitude == b_magnitude && a != b; // two infinities, when both are
    uint larger = a_magnitude > b_magnitude ? a : b;
    int magnitude = max(a_magnitude, b_magnitude);
    uint special = magnitude > int(INFINITY_F32) || opposite ? NAN_F32 : larger;
    return magnitude < int(INFINITY_F32) ? sum : special;
}

// x / 2^count for count < 64; the lowest bit is set where any bit was lost, as a later comparison needs it. x.x is the low word.
uvec2 shifted_jamming(uvec2 x, uint count) {
    bool far = count >= 32u;
    uint high = far ? 0u : x.y;
    uint low = far ? x.y : x.x;
    uint bits = count & 31u;
    uint lost = (far ? x.x : 0u) | (low & ((1u << bits) - 1u));
    uint carried = (high << 1) << (31u - bits); // a shift by 32 is undefined
    return uvec2((low >> bits) | carried | uint(lost != 0u), high >> bits);
}

// The quotient of a sum's magnitude, which is sum * 2^(exponent - 31) and not zero, by a divisor with this biased exponent.
int wide_quotient(uvec2 sum, int exponent, uint scale) {
    bool is_high = sum.y != 0u;
    uint upper = is_high ? sum.y : sum.x;
    uint lower = is_high ? sum.x : 0u;
    int highest = findMSB(upper | 1u);
    uint leading = (upper << uint(31 - highest)) | ((lower >> 1) >> uint(highest));
    float fraction = uintBitsToFloat(((leading >> 8) & 0x7fffffu) | ONE_F32);
    int above = exponent - EXPONENT_F32(scale);
    int dropped = min(max(29 - above, 0), 63);
    uint left = sum.x << uint(min(max(above - 29, 0), 31));
    uint quarters = above < 29 ? shifted_jamming(sum, uint(dropped)).x : left;
    return nearest_quotient(fraction, highest + (is_high ? 32 : 0) + above - 54, quarters, SIGNIFICAND_F32(scale));
}

// round((a_difference * a_scale + b_difference * b_scale) / scale), for differences of at most 255.
//
// The larger term is held in 64 bits, 31 of them below its last one. The smaller term loses bits only where it lies so far
// below that the two cannot cancel; that some were lost is then remembered in the last bit.
int exact_sum_quotient(int a_difference, uint a_scale, int b_difference, uint b_scale, uint scale) {
    Term a = scaled_difference(a_difference, a_scale);
    Term b = scaled_difference(b_difference, b_scale);
    bool exchange = a.exponent < b.exponent;
    uint large = exchange ? b.magnitude : a.magnitude;
    uint small = exchange ? a.magnitude : b.magnitude;
    int exponent = max(a.exponent, b.exponent);
    uint distance = uint(min(exponent - min(a.exponent, b.exponent), 63));
    uvec2 augend = uvec2(large << 31, large >> 1);
    uvec2 addend = shifted_jamming(uvec2(small << 31, small >> 1), distance);

    bool subtracts = a.sign != b.sign;
    addend = subtracts ? uvec2(0u - addend.x, ~addend.y + uint(addend.x == 0u)) : addend;
    uint low = augend.x + addend.x;
    uint high = augend.y + addend.y + uint(low < augend.x);
    bool is_negative = subtracts && int(high) < 0; // a sum of two may use the highest bit
    uvec2 sum = is_negative ? uvec2(0u - low, ~high + uint(low == 0u)) : uvec2(low, high);
    uint sign = (exchange ? b.sign : a.sign) ^ (is_negative ? SIGN_F32 : 0u);

    uint kind = kind_of_sum(a.kind, b.kind, (sum.x | sum.y) == 0u ? 0u : sign | ONE_F32);
    return with_sign(special_quotient(wide_quotient(sum, exponent, scale), kind, scale), kind ^ scale);
}

// An integer of at most 22 bits as a float. Conversions are slow on many GPUs.
float float_of_short(int integer) {
    precise float number = intBitsToFloat(integer + 0x4b400000) - 12582912.0; // 1.5 * 2^23
    return number;
}

// The same. 32 operations where the estimate decides, else about 140 more. The estimate adds the quotients of both terms, which
// may cancel: it is off by at most 2^-19 of the sum of their magnitudes, whose square is at most twice the sum of their squares.
int rounded_sum_quotient(int a_difference, uint a_scale, int b_difference, uint b_scale, uint scale) {
    int integer;
    if (ON_NAIVE_DRIVER) {
        integer = exact_sum_quotient(a_difference, a_scale, b_difference, b_scale, scale);
    } else {
        precise float inverse = quick_inverse(uintBitsToFloat(scale));
        precise float a = (float_of_short(a_difference) * uintBitsToFloat(a_scale)) * inverse;
        precise float b = (float_of_short(b_difference) * uintBitsToFloat(b_scale)) * inverse;
        precise float sum = a + b;
        precise float squares = a * a + b * b;
        precise float m_squared = squares + squares;
        Candidate found = candidate(sum, m_squared, has_quick_inverse(scale));
        integer = found.integer;
        if (!found.is_certain) { integer = exact_sum_quotient(a_difference, a_scale, b_difference, b_scale, scale); }
    }
    return integer;
}

// The bits of a product of an integer and a scale, where `magnitude` are those of the product if both are finite and not zero.
uint finished_product(uint magnitude, uint sign, bool integer_is_zero, uint scale) {
    int scale_magnitude = int(scale & MAGNITUDE_F32);
    bool is_infinite = scale_magnitude == int(INFINITY_F32);
    bool is_nan = scale_magnitude > int(INFINITY_F32) || (is_infinite && integer_is_zero);
    bool is_zero = integer_is_zero || scale_magnitude < int(SMALLEST_NORMAL_F32);
    uint finite = is_zero ? 0u : magnitude;
    return is_nan ? NAN_F32 : ((sign ^ scale) & SIGN_F32) | (is_infinite ? INFINITY_F32 : finite);
}

// integer * scale for an integer of at most 21 bits: one rounding, of the exact product. 22 operations.
uint scaled_short(int integer, uint scale) {
    // The significand alone is multiplied, its exponent added afterwards: no device's way with denormals is seen.
    precise float product = float_of_short(integer) * uintBitsToFloat((scale & 0x7fffffu) | ONE_F32);
    uint bits = floatBitsToUint(product) & MAGNITUDE_F32;
    int above = EXPONENT_F32(scale) - 127;
    int exponent = int(bits >> 23) + above;
    uint result = exponent <= 0 ? 0u : exponent >= 255 ? INFINITY_F32 : bits + (uint(above) << 23);
    return finished_product(result, uint(integer), integer == 0, scale);
}

// (-1)^sign * magnitude * scale, with the sign in the highest bit, rounded to 24 bits: to nearest even, or to odd, from which a
// second rounding, to FLOAT16, gives what a single one would (S. Boldo, G. Melquiond, «Emulation of a FMA and correctly rounded
// sums», 2008). 45 operations.
uint scaled_long(uint sign, uint magnitude, uint scale, bool to_odd) {
    uint high, low;
    umulExtended(magnitude, SIGNIFICAND_F32(scale), high, low);
    bool is_high = high != 0u;
    uint upper = is_high ? high : low;
    uint lower = is_high ? low : 0u;
    int highest = findMSB(upper | 1u);
    uint leading = (upper << uint(31 - highest)) | ((lower >> 1) >> uint(highest));
    uint below = lower << uint(31 - highest);
    uint kept = leading >> 8;
    uint rest = ((leading & 0xffu) << 1) | uint(below != 0u);
    uint up = uint(rest > 0x100u || (rest == 0x100u && (kept & 1u) != 0u));
    kept = to_odd ? kept | uint(rest != 0u) : kept + up;
    // The highest bit of what is kept adds 1 to the exponent; having rounded up to a power of two adds another.
    int exponent = highest + (is_high ? 32 : 0) + EXPONENT_F32(scale) - 24;
    int bits = (min(max(exponent, -2), 253) << 23) + int(kept);
    uint result = exponent > 253 ? INFINITY_F32 : bits < int(SMALLEST_NORMAL_F32) ? 0u : uint(bits);
    return finished_product(result, sign, magnitude == 0u, scale);
}

// integer * scale for an integer of at most 21 bits and a FLOAT16 scale, rounded once. The halves of the integer have exact products, whose
// sum is rounded to odd before it becomes FLOAT16. 24 operations.
uint scaled_short_f16(int integer, uint scale) {
    precise float number = float_of_short(integer);
    precise float factor = uintBitsToFloat(float32_from_float16(scale));
    float head = leading_half(number);
    precise float tail = number - head;
    precise float product_of_head = head * factor;
    float product = exact_product_plus(tail, factor, product_of_head);
    precise float difference = product_of_head - product; // exact
    float lost = exact_product_plus(tail, factor, difference);
    precise float special = number * factor; // of a scale that is zero, infinite or NaN
    bool is_ordinary = (scale & 0x7fffu) - 1u < INFINITY_F16 - 1u;
    return float16_from_float32(is_ordinary ? rounded_to_odd(Double(product, lost)) : floatBitsToUint(special));
}

// (x - zero_point) * scale, rounded once to the scale's type. «short» is for differences of at most 9 bits, or of 21 bits for
// float32; 32-bit integers («long») go by whether they are signed.
uint dequantized_short_f32(uint x, uint zero_point, uint scale) { return scaled_short(int(x - zero_point), scale); }
uint dequantized_short_f16(uint x, uint zero_point, uint scale) {
    precise float product = float_of_short(int(x - zero_point)) * uintBitsToFloat(float32_from_float16(scale)); // exact
    return float16_from_float32(floatBitsToUint(product));
}

// Differences of integers of 16 bits, for FLOAT16.
uint dequantized_medium_f16(uint x, uint zero_point, uint scale) { return scaled_short_f16(int(x - zero_point), scale); }

// Differences of more than 21 bits are rare: they take a branch.
#define LARGE_DISTANCE 0x200000u
uint distance_of(bool is_negative, uint x, uint zero_point) { return is_negative ? zero_point - x : x - zero_point; }
uint scaled_distance_f32(bool is_negative, uint distance, uint scale) {
    uint result = scaled_short(is_negative ? -int(distance) : int(distance), scale);
    if (distance >= LARGE_DISTANCE) { result = scaled_long(is_negative ? SIGN_F32 : 0u, distance, scale, false); }
    return result;
}
uint scaled_distance_f16(bool is_negative, uint distance, uint scale) {
    uint result = scaled_short_f16(is_negative ? -int(distance) : int(distance), scale);
    if (distance >= LARGE_DISTANCE) {
        uint odd = scaled_long(is_negative ? SIGN_F32 : 0u, distance, float32_from_float16(scale), true);
        result = float16_from_float32(odd);
    }
    return result;
}

bool is_below(bool has_sign, uint x, uint y) { return mix(x < y, int(x) < int(y), has_sign); }
uint dequantized_long_f32(bool has_sign, uint x, uint zero_point, uint scale) {
    bool is_negative = is_below(has_sign, x, zero_point);
    return scaled_distance_f32(is_negative, distance_of(is_negative, x, zero_point), scale);
}
uint dequantized_long_f16(bool has_sign, uint x, uint zero_point, uint scale) {
    bool is_negative = is_below(has_sign, x, zero_point);
    return scaled_distance_f16(is_negative, distance_of(is_negative, x, zero_point), scale);
}

#endif
