// Order, for every form of value. All on integers: the bits of floats are compared as they are, so that denormals are the
// numbers they are on devices that flush them, and NaN and the signs of zero follow the rules below everywhere.
// Comparisons are signed where the values allow it: processors' vector units have no unsigned one.
#ifndef COMPARISON_GLSL
#define COMPARISON_GLSL

bool is_nan_f32(uint x) { return int(x & 0x7fffffffu) > 0x7f800000; }
bool is_nan_f16(uint x) { return int(x & 0x7fffu) > 0x7c00; }

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
    bool no_nan = max(int(a & 0x7fffffffu), int(b & 0x7fffffffu)) <= 0x7f800000;
    return no_nan && signed_magnitude(a) > signed_magnitude(b);
}
bool is_greater_f16(uint a, uint b)
{
    bool no_nan = max(int(a & 0x7fffu), int(b & 0x7fffu)) <= 0x7c00;
    return no_nan && signed_magnitude(a << 16) > signed_magnitude(b << 16);
}
bool is_greater_i32(uint a, uint b) { return int(a) > int(b); }
bool is_greater_u32(uint a, uint b) { return a > b; }
bool is_greater_i64(uvec2 a, uvec2 b) { return a.y == b.y ? a.x > b.x : int(a.y) > int(b.y); }
bool is_greater_u64(uvec2 a, uvec2 b) { return a.y == b.y ? a.x > b.x : a.y > b.y; }

// A rank among all values: the lowest integer for NaN, then the numbers from -infinity up, -0 directly below +0.
int rank_f32(uint x) { return is_nan_f32(x) ? int(0x80000000u) : int(x) ^ int(uint(int(x) >> 31) & 0x7fffffffu); }
int rank_f16(uint x) { return is_nan_f16(x) ? int(0x80000000u) : signed_magnitude(x << 16) - int((x >> 15) & 1u); }

// larger: the larger of two values. Of a number and NaN the number, of two NaN the second one; +0 is above -0.
uint larger_f32(uint a, uint b) { return rank_f32(a) > rank_f32(b) ? a : b; }
uint larger_f16(uint a, uint b) { return rank_f16(a) > rank_f16(b) ? a : b; }
uint larger_i32(uint a, uint b) { return int(a) > int(b) ? a : b; }
uint larger_u32(uint a, uint b) { return a > b ? a : b; }

#endif
