// Arithmetic of integers in two's complement: results wrap. Values narrower than 32 bits are extended to 32; what leaves
// their width is dropped when they are stored. 64-bit values are pairs of words, the low one first.
#ifndef INTEGER_ARITHMETIC_GLSL
#define INTEGER_ARITHMETIC_GLSL

uint add_u32(uint a, uint b) { return a + b; }
uvec2 add_u64(uvec2 a, uvec2 b) {
    uint low = a.x + b.x;
    return uvec2(low, a.y + b.y + uint(low < a.x));
}

uint subtract_u32(uint a, uint b) { return a - b; }
uvec2 subtract_u64(uvec2 a, uvec2 b) { return uvec2(a.x - b.x, a.y - b.y - uint(a.x < b.x)); }

uint multiply_u32(uint a, uint b) { return a * b; }
uvec2 multiply_u64(uvec2 a, uvec2 b) {
    uint high, low;
    umulExtended(a.x, b.x, high, low);
    return uvec2(low, high + a.x * b.y + a.y * b.x);
}

// (a - b) * (a - b).
uint difference_square_u32(uint a, uint b) { return (a - b) * (a - b); }

// (a + b) / 2 of the whole sum, which does not wrap, truncated toward zero: the bits that both have, and half of those
// that one has, are the mean rounded down.
uint mean_u32(uint a, uint b) { return (a & b) + ((a ^ b) >> 1); }
uint mean_i32(uint a, uint b) {
    uint below = (a & b) + uint(int(a ^ b) >> 1);
    return below + ((a ^ b) & (below >> 31));
}

#endif
