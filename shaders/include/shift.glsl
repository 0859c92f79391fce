// Logical shifts by any amount: GLSL leaves a shift by the width of its type, or more, undefined. Values narrower than 32
// bits are zero-extended, and what leaves their width is dropped when they are stored.
#ifndef SHIFT_GLSL
#define SHIFT_GLSL

uint shift_left_u32(uint x, uint count) { return count < 32u ? x << (count & 31u) : 0u; }
uint shift_right_u32(uint x, uint count) { return count < 32u ? x >> (count & 31u) : 0u; }

// For 64-bit values the count's high word must be zero for anything to be left.
uvec2 shift_left_u64(uvec2 x, uvec2 count) {
    uint bits = count.x & 31u;
    uint carried = bits == 0u ? 0u : x.x >> (32u - bits);
    uvec2 within = uvec2(x.x << bits, (x.y << bits) | carried);
    uvec2 shifted = count.x < 32u ? within : uvec2(0u, x.x << bits);
    return count.y == 0u && count.x < 64u ? shifted : uvec2(0u);
}
uvec2 shift_right_u64(uvec2 x, uvec2 count) {
    uint bits = count.x & 31u;
    uint carried = bits == 0u ? 0u : x.y << (32u - bits);
    uvec2 within = uvec2((x.x >> bits) | carried, x.y >> bits);
    uvec2 shifted = count.x < 32u ? within : uvec2(x.y >> bits, 0u);
    return count.y == 0u && count.x < 64u ? shifted : uvec2(0u);
}

#endif
