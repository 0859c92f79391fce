// (x - mean) * factor + bias, by bits of float32: each step rounded once, denormals zeros of their sign.
#ifndef SHIFTED_AND_SCALED_GLSL
#define SHIFTED_AND_SCALED_GLSL

#include "arithmetic.glsl"
#include "processors.glsl"

// 47 operations.
uint shifted_and_scaled_any(uint x, uint mean, uint factor, uint bias) {
    return add_f32(multiply_f32(subtract_f32(x, mean), factor), bias);
}

// The same in 25 operations, but for steps whose results are zero, hardly above the denormals, infinite or NaN.
uint shifted_and_scaled(uint x, uint mean, uint factor, uint bias) {
    // A processor would execute both sides of the branch.
    if (ON_PROCESSOR) { return shifted_and_scaled_any(x, mean, factor, bias); }
    precise float difference = as_float32(x) - as_float32(mean);
    precise float product = difference * as_float32(factor);
    precise float sum = product + as_float32(bias);
    int difference_bits = int(floatBitsToUint(difference) & MAGNITUDE_F32);
    int product_bits = int(floatBitsToUint(product) & MAGNITUDE_F32);
    int sum_bits = int(floatBitsToUint(sum) & MAGNITUDE_F32);
    uint result = floatBitsToUint(sum);
    // What is infinite or NaN on the way is so in the end, or its product is.
    if (min(min(difference_bits, product_bits), sum_bits) <= int(SMALLEST_NORMAL_F32)
        || max(product_bits, sum_bits) >= int(INFINITY_F32)) {
        result = shifted_and_scaled_any(x, mean, factor, bias);
    }
    return result;
}

#endif
