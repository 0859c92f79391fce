// Differences from a mean in two words, rounded to float32.
#ifndef MEAN_DIFFERENCE_GLSL
#define MEAN_DIFFERENCE_GLSL

#include "error_free.glsl"
#include "float32.glsl"

// x - mean, rounded once but for what is far below the last place.
uint difference_from(uint x, uvec2 mean) {
    precise float rest = as_float32(mean.y);
    Double difference = two_sum(as_float32(x), -as_float32(mean.x));
    // Of what is not infinite: the error of an infinite sum is NaN.
    bool is_finite = int(floatBitsToUint(difference.high) & MAGNITUDE_F32) < int(INFINITY_F32);
    // Errors below 2^-126 count as zero, whatever the device makes of them.
    float error = as_float32(floatBitsToUint(difference.low));
    precise float low = error - rest;
    precise float total = difference.high + as_float32(floatBitsToUint(low));
    return as_result(is_finite ? total : difference.high);
}

#endif
