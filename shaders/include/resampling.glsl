// Where the elements of a resampled axis come from: steps in float32, each rounded once, so that no neighbour is another one on
// another device.
#ifndef RESAMPLING_GLSL
#define RESAMPLING_GLSL

#include "division.glsl"
#include "float32.glsl"

// Fractions below this count as 0.
#define LEAST_FRACTION 5.9604644775390625e-08 // 2^-24

// The integer below a number from 0 up to 2^31.
uint whole_of(float x) {
    int bits = floatBitsToInt(x);
    int fraction_bits = 150 - (bits >> 23); // of the significand, behind the point
    uint significand = uint(bits & 0x007fffff) | 0x00800000u;
    return (significand >> uint(min(max(fraction_bits, 0), 24))) << uint(max(-fraction_bits, 0));
}

bool is_zero(float x) { return floatBitsToUint(x) == 0u; }

// An axis: input = (output - output_offset) / scale - input_offset, between the first element and the last one.
struct Resampled {
    float scale;
    float inverse;  // of the scale, where that is a power of two, else 0: the product is the quotient then
    float input_offset, output_offset;
    float last; // the number of the input's last element
};

// The place in the input, not negative.
float location_of(uint element, Resampled axis) {
    precise float offset = float(int(element)) - axis.output_offset;
    precise float quotient = offset * axis.inverse;
    if (is_zero(axis.inverse)) {
        quotient = uintBitsToFloat(divide_f32(floatBitsToUint(offset), floatBitsToUint(axis.scale)));
    }
    precise float location = quotient - axis.input_offset;
    int bits = int(without_denormal(floatBitsToUint(location)));
    // Of positive numbers, the bits have the numbers' order.
    return intBitsToFloat(min(max(bits, 0), floatBitsToInt(axis.last)));
}

// How a place becomes an element where only one is taken.
#define NEAREST_OR_LOWER 0u
#define LOWER 1u
#define UPPER 2u
uint nearest_element(float location, uint rounding) {
    precise float half_lower = location - 0.5;
    float lower = intBitsToFloat(max(floatBitsToInt(half_lower), 0));
    float moved = rounding == NEAREST_OR_LOWER ? lower : location;
    uint whole = whole_of(moved);
    precise float rest = moved - float(int(whole));
    bool is_above = rounding != LOWER && floatBitsToInt(rest) > 0;
    return whole + uint(is_above);
}

// The element below a place, and how far the place lies behind it.
struct Between {
    uint element;
    float fraction;
};
Between between(float location) {
    uint whole = whole_of(location);
    precise float fraction = location - float(int(whole));
    bool is_whole = floatBitsToInt(fraction) < floatBitsToInt(LEAST_FRACTION);
    return Between(whole, is_whole ? 0.0 : fraction);
}

#endif
