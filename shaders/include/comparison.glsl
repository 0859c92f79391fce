// Order, for every form of value. All on integers: the bits of floats are compared as they are, so that denormals are the
// numbers they are on devices that flush them, and NaN and the signs of zero follow the rules below everywhere.
// Comparisons are signed where the values allow it: processors' vector units have no unsigned one.
#ifndef COMPARISON_GLSL
#define COMPARISON_GLSL

#include "float16.glsl"

bool is_nan_f32(uint x) { return int(x & 0x7fffffffu) > 0x7f800000; }
bool is_nan_f16(uint x) { return int(x & 0x7fffu) > 0x7c00; }

// The bits of a number as a two's complement integer of the same order: sign and magnitude become a signed magnitude, so
// that both zeros become 0.
int signed_magnitude(uint x) {
    int negative = int(x) >> 31;
    return (int(x & 0x7fffffffu) ^ negative) - negative;
}

// The two float16 zeros and numbers keep their order when they are moved up to the place of float32's.
#define AS_F32(x) ((x) << 16)

bool no_nan_f32(uint a, uint b) { return max(int(a & 0x7fffffffu), int(b & 0x7fffffffu)) <= 0x7f800000; }
bool no_nan_f16(uint a, uint b) { return max(int(a & 0x7fffu), int(b & 0x7fffu)) <= 0x7c00; }

// is_greater: a > b. False when either is NaN; both zeros are equal.
bool is_greater_f32(uint a, uint b) { return no_nan_f32(a, b) && signed_magnitude(a) > signed_magnitude(b); }
bool is_greater_f16(uint a, uint b) {
    if (UNPACKS_DENORMALS) {
        // Differences of float16 numbers are rounded in float32, but never to zero; that of equal infinities is not a number.
        precise float difference = uintBitsToFloat(float32_from_float16(a)) - uintBitsToFloat(float32_from_float16(b));
        int bits = floatBitsToInt(difference);
        return bits > 0 && bits <= 0x7f800000;
    }
    return no_nan_f16(a, b) && signed_magnitude(AS_F32(a)) > signed_magnitude(AS_F32(b));
}
bool is_greater_i32(uint a, uint b) { return int(a) > int(b); }
bool is_greater_i64(uvec2 a, uvec2 b) { return a.y == b.y ? a.x > b.x : int(a.y) > int(b.y); }
bool is_greater_u64(uvec2 a, uvec2 b) { return a.y == b.y ? a.x > b.x : a.y > b.y; }

// is_greater_or_equal: a >= b. False when either is NaN; both zeros are equal.
bool is_greater_or_equal_f32(uint a, uint b) { return no_nan_f32(a, b) && signed_magnitude(a) >= signed_magnitude(b); }
bool is_greater_or_equal_f16(uint a, uint b) {
    return no_nan_f16(a, b) && signed_magnitude(AS_F32(a)) >= signed_magnitude(AS_F32(b));
}
bool is_greater_or_equal_i32(uint a, uint b) { return int(a) >= int(b); }
bool is_greater_or_equal_u32(uint a, uint b) { return a >= b; }
bool is_greater_or_equal_i64(uvec2 a, uvec2 b) { return !is_greater_i64(b, a); }
bool is_greater_or_equal_u64(uvec2 a, uvec2 b) { return !is_greater_u64(b, a); }

// holds: whether two values stand in a relation: a == b, a > b or a >= b, or the same of b and a. False when either is NaN; both zeros are equal.
// Integers are told whether they have a sign. dmlvk/kernels/special_values.py counts relations.
#define IS_EQUAL 0u
#define IS_GREATER 1u
#define IS_REVERSED 4u
bool by_relation(uint relation, bool is_equal, bool is_greater, bool is_greater_or_equal) {
    return mix(mix(is_greater_or_equal, is_greater, (relation & 3u) == IS_GREATER), is_equal, (relation & 3u) == IS_EQUAL);
}
bool holds_between(uint relation, int a, int b) { return by_relation(relation, a == b, a > b, a >= b); }
bool holds_f32(uint relation, bool has_sign, uint a, uint b) {
    bool is_reversed = (relation & IS_REVERSED) != 0u;
    int first = signed_magnitude(mix(a, b, is_reversed));
    int second = signed_magnitude(mix(b, a, is_reversed));
    return no_nan_f32(a, b) && holds_between(relation, first, second);
}
bool holds_f16(uint relation, bool has_sign, uint a, uint b) {
    bool is_reversed = (relation & IS_REVERSED) != 0u;
    uint first = mix(a, b, is_reversed);
    uint second = mix(b, a, is_reversed);
    if ((relation & 3u) == IS_GREATER) { return is_greater_f16(first, second); }
    return no_nan_f16(a, b) && holds_between(relation, signed_magnitude(AS_F32(first)), signed_magnitude(AS_F32(second)));
}
bool holds_u32(uint relation, bool has_sign, uint a, uint b) {
    bool is_reversed = (relation & IS_REVERSED) != 0u;
    uint first = mix(a, b, is_reversed);
    uint second = mix(b, a, is_reversed);
    bool holds_of_unsigned = by_relation(relation, first == second, first > second, first >= second);
    return mix(holds_of_unsigned, holds_between(relation, int(first), int(second)), has_sign);
}
bool holds_u64(uint relation, bool has_sign, uvec2 a, uvec2 b) {
    bool is_negated = (relation & 3u) != IS_GREATER; // a >= b where b > a is not
    bvec2 exchanges = bvec2(((relation & IS_REVERSED) != 0u) != is_negated);
    uvec2 first = mix(a, b, exchanges);
    uvec2 second = mix(b, a, exchanges);
    bool is_greater = mix(is_greater_u64(first, second), is_greater_i64(first, second), has_sign);
    return mix(is_greater != is_negated, a == b, (relation & 3u) == IS_EQUAL);
}

// A rank among the numbers: from -infinity up, -0 directly below +0; NaN has the rank that is given.
int rank_f32(uint x, int of_nan) { return is_nan_f32(x) ? of_nan : int(x) ^ int(uint(int(x) >> 31) & 0x7fffffffu); }
int rank_f16(uint x, int of_nan) { return is_nan_f16(x) ? of_nan : signed_magnitude(AS_F32(x)) - int((x >> 15) & 1u); }
#define BELOW_ALL int(0x80000000u)
#define ABOVE_ALL 0x7fffffff

// larger, smaller: of two values. Of a number and NaN the number, of two NaN the second one; +0 is above -0.
uint larger_f32(uint a, uint b) { return rank_f32(a, BELOW_ALL) > rank_f32(b, BELOW_ALL) ? a : b; }
uint larger_f16(uint a, uint b) { return rank_f16(a, BELOW_ALL) > rank_f16(b, BELOW_ALL) ? a : b; }
uint larger_i32(uint a, uint b) { return int(a) > int(b) ? a : b; }
uint larger_u32(uint a, uint b) { return a > b ? a : b; }
uvec2 larger_i64(uvec2 a, uvec2 b) { return is_greater_i64(a, b) ? a : b; }
uvec2 larger_u64(uvec2 a, uvec2 b) { return is_greater_u64(a, b) ? a : b; }
uint smaller_f32(uint a, uint b) { return rank_f32(a, ABOVE_ALL) < rank_f32(b, ABOVE_ALL) ? a : b; }
uint smaller_f16(uint a, uint b) { return rank_f16(a, ABOVE_ALL) < rank_f16(b, ABOVE_ALL) ? a : b; }
uint smaller_i32(uint a, uint b) { return int(a) < int(b) ? a : b; }
uint smaller_u32(uint a, uint b) { return a < b ? a : b; }
uvec2 smaller_i64(uvec2 a, uvec2 b) { return is_greater_i64(b, a) ? a : b; }
uvec2 smaller_u64(uvec2 a, uvec2 b) { return is_greater_u64(b, a) ? a : b; }

// The same in fewer instructions, for float16 operands of which none is NaN (nan_bits_f16): by the sign of a difference, which is
// never rounded to zero, and of zeros -0 where -0 comes first. That of equal infinities is NaN, and then either one is right.
bool has_sign(float x) { return floatBitsToInt(x) < 0; }
uint quick_larger_f16(uint a, uint b) {
    precise float first = uintBitsToFloat(float32_from_float16(a));
    precise float second = uintBitsToFloat(float32_from_float16(b));
    precise float difference = first - second;
    return float16_from_number(floatBitsToUint(has_sign(difference) ? second : first));
}
uint quick_smaller_f16(uint a, uint b) {
    precise float first = uintBitsToFloat(float32_from_float16(a));
    precise float second = uintBitsToFloat(float32_from_float16(b));
    precise float difference = second - first;
    return float16_from_number(floatBitsToUint(has_sign(difference) ? second : first));
}

// larger(smaller(x, highest), lowest) for x that is not NaN, and any bounds: a NaN is none. Beside the largest float16 an infinite
// bound is 2^17, so that no difference is NaN. 7 operations.
#define BEYOND_FLOAT16 131072.0
float finite_bound(uint bound) {
    bool is_infinite = (bound & 0x7fffu) == INFINITY_F16;
    float beyond = (bound & 0x8000u) == 0u ? BEYOND_FLOAT16 : -BEYOND_FLOAT16;
    return is_infinite ? beyond : uintBitsToFloat(float32_from_float16(bound));
}
uint quick_clipped_f16(uint x, uint lowest, uint highest) {
    uint upper = is_nan_f16(highest) ? INFINITY_F16 : highest;
    uint lower = is_nan_f16(lowest) ? INFINITY_F16 | 0x8000u : lowest;
    precise float value = uintBitsToFloat(float32_from_float16(x));
    precise float room_above = finite_bound(upper) - value;
    value = has_sign(room_above) ? uintBitsToFloat(float32_from_float16(upper)) : value;
    precise float room_below = value - finite_bound(lower);
    value = has_sign(room_below) ? uintBitsToFloat(float32_from_float16(lower)) : value;
    return float16_from_number(floatBitsToUint(value));
}

// Whether x is above `lowest` and below `highest`, for x that is not NaN; only for bounds that has_quick_range knows.
bool has_quick_range(uint lowest, uint highest) {
    return no_nan_f16(lowest, highest) && lowest != INFINITY_F16 && highest != (INFINITY_F16 | 0x8000u);
}
bool is_between_f16(uint x, uint lowest, uint highest) {
    precise float value = uintBitsToFloat(float32_from_float16(x));
    precise float room_above = finite_bound(highest) - value;
    precise float room_below = value - finite_bound(lowest);
    return min(floatBitsToInt(room_above), floatBitsToInt(room_below)) > 0;
}

// The same for float32 beside a number (no NaN) of which it is known whether its sign bit is set. `larger_number`,
// `smaller_number`: of two numbers.
uint larger_beside_positive(uint a, uint number) { return int(a) > int(number) && int(a) <= 0x7f800000 ? a : number; }
uint larger_beside_negative(uint a, uint number) { return a < number && int(a) <= 0x7f800000 ? a : number; }
uint smaller_beside_positive(uint a, uint number) { return int(a) < int(number) && a <= 0xff800000u ? a : number; }
uint smaller_beside_negative(uint a, uint number) {
    return int(a) > int(number) && int(a) <= int(0xff800000u) ? a : number;
}
uint larger_number_beside_positive(uint a, uint number) { return int(a) > int(number) ? a : number; }
uint larger_number_beside_negative(uint a, uint number) { return a < number ? a : number; }

// canonical: the value, every NaN as the canonical quiet one.
uint canonical_f32(uint x) { return is_nan_f32(x) ? 0x7fc00000u : x; }
uint canonical_f16(uint x) { return is_nan_f16(x) ? 0x7e00u : x; }
uint canonical_i32(uint x) { return x; }
uint canonical_u32(uint x) { return x; }
uvec2 canonical_i64(uvec2 x) { return x; }
uvec2 canonical_u64(uvec2 x) { return x; }

#endif
