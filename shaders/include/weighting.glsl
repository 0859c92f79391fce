// Averages of two numbers by a fraction, as the place between their elements has it. Weights, products and sums are rounded to
// float32 one by one. An element of weight 0 is left out, so that an infinity there does no harm.
#ifndef WEIGHTING_GLSL
#define WEIGHTING_GLSL

#include "arithmetic.glsl"
#include "resampling.glsl"

#define LEAST_PLAIN 0x30800000u // 2^-30: of two such weighted averages no step is denormal

float weighted(float first, float second, float fraction) {
    precise float rest = 1.0 - fraction;
    precise float average = first * rest + second * fraction;
    return is_zero(fraction) ? first : average;
}

// The same for any numbers.
uint weighted_slowly(uint first, uint second, float fraction) {
    precise float rest = 1.0 - fraction;
    uint average = add_f32(multiply_f32(floatBitsToUint(rest), first), multiply_f32(floatBitsToUint(fraction), second));
    return is_zero(fraction) ? first : average;
}

// The average of four elements: of the upper two and of the lower two along x, and of these along y.
uint weighted_four(uvec4 bits, float fraction_x, float fraction_y) {
    vec4 numbers = uintBitsToFloat(bits);
    float upper = weighted(numbers.x, numbers.y, fraction_x);
    float lower = weighted(numbers.z, numbers.w, fraction_x);
    return floatBitsToUint(weighted(upper, lower, fraction_y));
}
uint weighted_four_slowly(uvec4 bits, float fraction_x, float fraction_y) {
    uint upper = weighted_slowly(bits.x, bits.y, fraction_x);
    uint lower = weighted_slowly(bits.z, bits.w, fraction_x);
    return weighted_slowly(upper, lower, fraction_y);
}

// Whether one of four magnitudes is so small, and not 0, that some step may be denormal.
bool has_tiny(uvec4 bits) {
    uvec4 less_one = (bits & MAGNITUDE_F32) - 1u;
    return min(min(less_one.x, less_one.y), min(less_one.z, less_one.w)) < LEAST_PLAIN - 1u;
}

#endif
