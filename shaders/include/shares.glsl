// What a key takes of the sum of a softmax, and how parts of such a sum are joined. Everything is float32.
//
// A part of the keys is told by its peak (the largest score), its total (the sum of exp(score - peak)) and its sums (the values
// times the same). Parts are joined in a fixed order: what is there and what comes are multiplied by exp(own peak - larger peak),
// one of which is 1, and added (M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018).
#ifndef SHARES_GLSL
#define SHARES_GLSL

#include "comparison.glsl"
#include "division.glsl"
#include "float32.glsl"

#define NO_PEAK uintBitsToFloat(0xff800000u) // -infinity: of no key at all, or of none that counts

// The least product of a share and a value, or of a query and a key, that counts; also the least that a sum can be, but zero:
// every product is a multiple of 2^-125 then, so that no sum is denormal.
#define LEAST_PRODUCT 0x0c800000u // 2^-102

// exp(below) for numbers up to 0; below 2^-64 it is 0. Within 2 ULP (Cephes' polynomial, by S. Moshier).
float share_of(float below) {
    uint magnitude = floatBitsToUint(below) & MAGNITUDE_F32;
    precise float shifted = below * 1.44269504 + 12582912.0; // 1.5 * 2^23: the sum is a whole number
    // Not shifted - 12582912.0, which SwiftShader simplifies in copies of a loop's body, where it forgets what is precise.
    int exponent = int(floatBitsToUint(shifted)) - 0x4b400000;
    precise float whole = float(exponent);
    precise float coarse = below - whole * 0.693359375; // exact
    precise float x = coarse - whole * -2.12194440e-4;
    precise float quartic = ((x * 1.9875691500e-4 + 1.3981999507e-3) * x + 8.3334519073e-3) * x + 4.1665795894e-2;
    precise float slope = (quartic * x + 1.6666665459e-1) * x + 5.0000001201e-1;
    precise float square = x * x;
    precise float result = slope * square + x + 1.0;
    precise float scaled = result * power_of_two(exponent);
    float share = magnitude > 0x42317217u ? 0.0 : scaled; // 64 log(2)
    return magnitude > INFINITY_F32 ? uintBitsToFloat(NAN_F32) : share;
}

// A product that is added to a sum; what is smaller than LEAST_PRODUCT is nothing.
float with_product(float sum, float a, float b) {
    precise float product = a * b;
    bool counts = (floatBitsToUint(product) & MAGNITUDE_F32) >= LEAST_PRODUCT;
    precise float total = sum + (counts ? product : 0.0);
    return total;
}

// The same where no product is smaller: of FLOAT16 numbers, also times shares.
float with_large_product(float sum, float a, float b) {
    precise float product = a * b;
    precise float total = sum + product;
    return total;
}

// What is there, and what comes, are multiplied by these. One of them is 1, unless the peak is not finite.
vec2 weights_of(float there, float here) {
    int a = rank_f32(floatBitsToUint(there), ABOVE_ALL);
    int b = rank_f32(floatBitsToUint(here), ABOVE_ALL);
    float peak = a >= b ? there : here;
    precise float below = (a >= b ? here : there) - peak;
    float less = share_of(below);
    float most = (floatBitsToUint(peak) & MAGNITUDE_F32) < INFINITY_F32 ? 1.0 : uintBitsToFloat(NAN_F32);
    vec2 weights = a >= b ? vec2(most, less) : vec2(less, most);
    bool is_first = floatBitsToUint(there) == 0xff800000u;
    bool is_nothing = floatBitsToUint(here) == 0xff800000u;
    return vec2(is_first ? 0.0 : weights.x, is_nothing ? 0.0 : weights.y);
}

float larger_peak(float there, float here) {
    int a = rank_f32(floatBitsToUint(there), ABOVE_ALL);
    int b = rank_f32(floatBitsToUint(here), ABOVE_ALL);
    return a >= b ? there : here;
}

float weighted(float there, float here, vec2 weights) {
    precise float a = there * weights.x;
    precise float b = here * weights.y;
    precise float total = uintBitsToFloat(as_result(a)) + uintBitsToFloat(as_result(b));
    return uintBitsToFloat(as_result(total));
}

#endif
