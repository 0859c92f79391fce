// Order, for every form of value. All on integers: the bits of floats are compared as they are, so that denormals are the
// numbers they are on devices that flush them, and NaN and the signs of zero follow the rules below everywhere.
#ifndef COMPARISON_GLSL
#define COMPARISON_GLSL

const uint CANONICAL_NAN_F32 = 0x7fc00000u;
const uint CANONICAL_NAN_F16 = 0x7e00u;

bool is_nan_f32(uint x) { return (x & 0x7fffffffu) > 0x7f800000u; }
bool is_nan_f16(uint x) { return (x & 0x7fffu) > 0x7c00u; }

// Maps the bits of floats to integers in the order of the numbers, -0 directly below +0. (The classic mapping of
// sign-magnitude to a biased order, as used for sorting floats by radix.)
uint ordered_f32(uint x) { return x ^ (0x80000000u | uint(int(x) >> 31)); }
uint ordered_f16(uint x) { return x ^ ((x & 0x8000u) != 0u ? 0xffffu : 0x8000u); }

// is_greater: a > b. False when either is NaN; both zeros are equal.
bool is_greater_f32(uint a, uint b)
{
    bool both_zero = ((a | b) & 0x7fffffffu) == 0u;
    return ordered_f32(a) > ordered_f32(b) && !both_zero && !is_nan_f32(a) && !is_nan_f32(b);
}
bool is_greater_f16(uint a, uint b)
{
    bool both_zero = ((a | b) & 0x7fffu) == 0u;
    return ordered_f16(a) > ordered_f16(b) && !both_zero && !is_nan_f16(a) && !is_nan_f16(b);
}
bool is_greater_i32(uint a, uint b) { return int(a) > int(b); }
bool is_greater_u32(uint a, uint b) { return a > b; }
bool is_greater_i64(uvec2 a, uvec2 b) { return a.y == b.y ? a.x > b.x : int(a.y) > int(b.y); }
bool is_greater_u64(uvec2 a, uvec2 b) { return a.y == b.y ? a.x > b.x : a.y > b.y; }

// larger: the larger of two values. Of a number and NaN the number; of two NaN the canonical one; +0 is above -0.
uint larger_f32(uint a, uint b)
{
    if (is_nan_f32(a)) {
        return is_nan_f32(b) ? CANONICAL_NAN_F32 : b;
    }
    return is_nan_f32(b) || ordered_f32(a) > ordered_f32(b) ? a : b;
}
uint larger_f16(uint a, uint b)
{
    if (is_nan_f16(a)) {
        return is_nan_f16(b) ? CANONICAL_NAN_F16 : b;
    }
    return is_nan_f16(b) || ordered_f16(a) > ordered_f16(b) ? a : b;
}
uint larger_i32(uint a, uint b) { return int(a) > int(b) ? a : b; }
uint larger_u32(uint a, uint b) { return a > b ? a : b; }

#endif
