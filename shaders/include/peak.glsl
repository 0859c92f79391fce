// A row's elements beside its largest one, the peak, which is known: what the softmax operators share. Everything is relative to the
// peak, so that nothing overflows; what is summed has two words (T. J. Dekker, «A floating-point technique for extending the
// available precision», 1971).
//
// An element's difference is y = x - shift, the shift being zero, or the peak where that is so large that numbers which are not
// far from it are subtracted without rounding (P. H. Sterbenz, «Floating-point computation», 1974): so y is exact wherever
// e^(x - peak) is not below 2^-126.
#ifndef PEAK_GLSL
#define PEAK_GLSL

#include "error_free.glsl"
#include "float32.glsl"

#define LARGEST_UNSHIFTED 0x43300000 // 176: from here on what is not below half the peak is all that matters
#define MINUS_INFINITY (SIGN_F32 | INFINITY_F32)

// a + b, for numbers of one sign. Relative error: at most 3 * 2^-48. 11 operations.
Double sum_of(Double a, Double b) {
    Double total = two_sum(a.high, b.high);
    precise float low = total.low + (a.low + b.low);
    return fast_two_sum(total.high, low);
}

bool is_large(float peak) { return int(floatBitsToUint(peak) & MAGNITUDE_F32) > LARGEST_UNSHIFTED; }

bool is_shifted(float shift) { return (floatBitsToUint(shift) & MAGNITUDE_F32) != 0u; }

// An element's difference, which matters unless it is far below the peak: the element itself where nothing is shifted.
float difference_of(uint x, float shift) {
    precise float difference = uintBitsToFloat(x) - shift;
    return difference;
}

// Whether the distance is more than one that is not negative, of which these are the bits.
bool is_further_below(uint x, float peak, int distance_bits) {
    precise float distance = peak - uintBitsToFloat(x);
    return x == MINUS_INFINITY || floatBitsToInt(distance) > distance_bits;
}

bool is_within(uint x, float peak, int distance_bits) {
    precise float distance = peak - uintBitsToFloat(x);
    return floatBitsToInt(distance) <= distance_bits;
}

// The difference of an element that may be far below: never below the lowest, and that of -infinity is `nothing`.
float bounded_difference(uint x, float difference, float lowest_difference, float nothing) {
    uint bits = floatBitsToUint(difference);
    uint lowest = floatBitsToUint(lowest_difference);
    // Of two negative numbers, the one further from zero has the greater bits.
    uint bounded = int(lowest) < 0 ? min(bits, lowest) : uint(max(int(bits), int(lowest)));
    return uintBitsToFloat(x == MINUS_INFINITY ? floatBitsToUint(nothing) : bounded);
}

#endif
