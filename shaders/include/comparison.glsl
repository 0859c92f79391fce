// Order, for every form of value. All on integers: the bits of floats are compared as they are, so that denormals are the
// numbers they are on devices that flush them, and NaN and the signs of zero follow the rules below everywhere.
#ifndef COMPARISON_GLSL
#define COMPARISON_GLSL

const uint CANONICAL_NAN_F32 = 0x7fc00000u;
const uint CANONICAL_NAN_F16 = 0x7e00u;

// The bits of a number as a two's complement integer of the same order: sign and magnitude become a signed magnitude, so
// that both zeros become 0.
int signed_magnitude(uint x)
{
    int negative = int(x) >> 31;
    return (int(x & 0x7fffffffu) ^ negative) - negative;
}

// is_greater: a > b. False when either is NaN; both zeros are equal.
bool is_greater_f32(uint a, uint b)
{
    bool no_nan = max(a & 0x7fffffffu, b & 0x7fffffffu) <= 0x7f800000u;
    return no_nan && signed_magnitude(a) > signed_magnitude(b);
}
bool is_greater_f16(uint a, uint b)
{
    bool no_nan = max(a & 0x7fffu, b & 0x7fffu) <= 0x7c00u;
    return no_nan && signed_magnitude(a << 16) > signed_magnitude(b << 16);
}
bool is_greater_i32(uint a, uint b) { return int(a) > int(b); }
bool is_greater_u32(uint a, uint b) { return a > b; }
bool is_greater_i64(uvec2 a, uvec2 b) { return a.y == b.y ? a.x > b.x : int(a.y) > int(b.y); }
bool is_greater_u64(uvec2 a, uvec2 b) { return a.y == b.y ? a.x > b.x : a.y > b.y; }

// A rank among all values: 0 for NaN, then the numbers from -infinity up, -0 directly below +0.
uint rank_f32(uint x)
{
    uint rank = x ^ (0x80000000u | uint(int(x) >> 31));
    return (x & 0x7fffffffu) > 0x7f800000u ? 0u : rank;
}
uint rank_f16(uint x) { return (x & 0x7fffu) > 0x7c00u ? 0u : x ^ ((x & 0x8000u) != 0u ? 0xffffu : 0x8000u); }

// larger: the larger of two values. Of a number and NaN the number; of two NaN the canonical one; +0 is above -0.
uint larger_f32(uint a, uint b)
{
    uint rank_a = rank_f32(a);
    uint rank_b = rank_f32(b);
    return max(rank_a, rank_b) == 0u ? CANONICAL_NAN_F32 : (rank_a > rank_b ? a : b);
}
uint larger_f16(uint a, uint b)
{
    uint rank_a = rank_f16(a);
    uint rank_b = rank_f16(b);
    return max(rank_a, rank_b) == 0u ? CANONICAL_NAN_F16 : (rank_a > rank_b ? a : b);
}
uint larger_i32(uint a, uint b) { return int(a) > int(b) ? a : b; }
uint larger_u32(uint a, uint b) { return a > b ? a : b; }

#endif
