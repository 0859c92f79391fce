// Rounding to odd: an inexact number becomes that one of its two neighbours whose last bit is 1. Rounding it once more, to
// two bits less or fewer, then gives what rounding the exact number would have given (S. Boldo, G. Melquiond, «Emulation of
// a FMA and correctly rounded sums: proved algorithms using rounding to odd», 2008).
#ifndef ROUNDING_TO_ODD_GLSL
#define ROUNDING_TO_ODD_GLSL

#include "error_free.glsl"

// The bits of number.high + number.low rounded to odd, where high is that sum rounded to nearest, finite and, unless low is
// 0, not 0. An even high becomes its neighbour on the side of low. 8 operations.
uint rounded_to_odd(Double number) {
    uint high = floatBitsToUint(number.high);
    uint low = floatBitsToUint(number.low);
    uint inexact = uint((low & 0x7fffffffu) != 0u);
    uint toward_zero = ((high ^ low) >> 31) & inexact;
    return (high - toward_zero) | inexact;
}

#endif
