// The tangent of every float32: of what trigonometry.glsl leaves of an angle, a square in each of many intervals.
#ifndef TANGENT_GLSL
#define TANGENT_GLSL

#include "coefficients.glsl"
#include "trigonometry.glsl"

// Rows for tan(r) and 1 / tan(r), 2^-7 <= r < 1: 256 from a power of two to the next, so that 17 bits of r tell them apart.
#define TAN_FIRST 0x3c000000u
#define TAN_FIRST_ROW (TAN_FIRST >> 15)
#define TAN_LAST_ROW ((ONE_F32 >> 15) - 1u)

// tan(r) for 0 <= r < 2^-7 in two words: r + r^3 / 3.
float small_tangent(Double r) {
    precise float sum = r.high + (r.low + (r.high * (r.high * r.high)) * 0.333333343);
    return sum;
}

// tan(r), or 1 / tan(r), for 0 <= r < 2^-7: the latter is 1 / r - r / 3.
float tangent_near_zero(float high, float low, bool is_inverse) {
    Double r = two_sum(high, low); // below 2^-20 the two may be of one size
    float value;
    if (is_inverse) {
        float inverse = quick_inverse(r.high); // the sign of a divisor stays
        float quotient = leading_half(inverse);
        float head = leading_half(r.high);
        precise float missing = exact_product_plus(-quotient, head, 1.0) - quotient * ((r.high - head) + r.low);
        precise float sum = quotient + (missing * inverse - r.high * 0.333333343);
        value = sum;
    } else {
        value = small_tangent(r);
    }
    return value;
}

// tan(r), or 1 / tan(r) for odd quadrants, of an r that has a row, in two words.
float tangent_by_row(float high, float low, uint odd) {
    uint number = min(max(floatBitsToUint(high) >> 15, TAN_FIRST_ROW), TAN_LAST_ROW) + odd * (COTANGENT_ROWS - TAN_ROWS);
    vec4 row = coefficient_row(TAN_ROWS - TAN_FIRST_ROW + number);
    precise float distance = (high - row.x) + low;
    precise float value = row.y + beside_point(row, distance);
    return value;
}

// The tangent of r, or for odd quadrants -1 / tan(r). Largest error over all 2^32 inputs: 0.5468 ULP (of 0x720b874f). 16 float and 13 integer operations
// below 4096, where r is not near zero.
uint tan_f32(uint x) {
    uint magnitude = x & MAGNITUDE_F32;
    Remainder r = remainder_of_small(uintBitsToFloat(magnitude), 12582912.0);
    uint flips = x & SIGN_F32;
    if (int(magnitude) >= LARGE_ANGLE) {
        r = remainder_of_large_or_none(magnitude, 0u);
        flips = int(magnitude) >= int(INFINITY_F32) ? NAN_F32 : flips;
    }
    uint sign = floatBitsToUint(r.high) & SIGN_F32;
    uint high_bits = floatBitsToUint(r.high) & MAGNITUDE_F32;
    precise float high = uintBitsToFloat(high_bits);
    float low = uintBitsToFloat(floatBitsToUint(r.low) ^ sign);
    uint odd = r.quadrant & 1u;
    float value = tangent_by_row(high, low, odd);
    if (high_bits < TAN_FIRST) {
        value = tangent_near_zero(high, low, odd != 0u);
        value = magnitude < SMALLEST_NORMAL_F32 ? 0.0 : value;
    }
    return floatBitsToUint(value) ^ sign ^ (r.quadrant << 31) ^ flips;
}
FLOAT16_FORM_1(tan)

// The same but for large angles, and for those near a pole (FAST_PATH_OPERATION, elementwise_contiguous.glsl).
uint ordinary_tan_f32(uint x, out bool needs_slow_path) {
    uint magnitude = x & MAGNITUDE_F32;
    Remainder r = remainder_of_small(uintBitsToFloat(magnitude), 12582912.0);
    uint sign = floatBitsToUint(r.high) & SIGN_F32;
    uint high_bits = floatBitsToUint(r.high) & MAGNITUDE_F32;
    precise float high = uintBitsToFloat(high_bits);
    float low = uintBitsToFloat(floatBitsToUint(r.low) ^ sign);
    uint odd = r.quadrant & 1u;
    float value = tangent_by_row(high, low, odd);
    if (high_bits < TAN_FIRST) { value = magnitude < SMALLEST_NORMAL_F32 ? 0.0 : small_tangent(two_sum(high, low)); }
    needs_slow_path = magnitude >= uint(LARGE_ANGLE) || (high_bits < TAN_FIRST && odd != 0u);
    return floatBitsToUint(value) ^ sign ^ (r.quadrant << 31) ^ (x & SIGN_F32);
}

#endif
