// Whether numbers are neither so small nor so large that a function has to treat them apart.
#ifndef ORDINARY_GLSL
#define ORDINARY_GLSL

#include "float32.glsl"

// Whether a magnitude is not from `begin` up to `end`, or it is not possible at all, in one comparison of one sum: all but the magnitude
// are known for many elements at once.
bool is_outside(uint magnitude, uint begin, uint end, bool is_possible) {
    uint shift = SIGN_F32 - end;
    int last_below = is_possible ? int(begin + shift - 1u) : 0x7fffffff;
    return int(magnitude + shift) <= last_below;
}

// Whether |x| is from 2^-30 up to 2^30.
bool is_near_one(uint x) { return !is_outside(x & MAGNITUDE_F32, 0x30800000u, 0x4e800000u, true); }

#endif
