// Averages of sums in two words.
#ifndef WINDOW_AVERAGE_GLSL
#define WINDOW_AVERAGE_GLSL

#include "window_sums.glsl"

// sum / count; 0 where the count is.
Double average_of(Double sum, uint count) {
    Double quotient = quotient_by(sum, max(count, 1u));
    return fast_two_sum(quotient.high, quotient.low);
}

#endif
