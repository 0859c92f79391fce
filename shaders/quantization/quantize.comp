// QUANTIZE: f(x, scale, zero) = clamp(round(x / scale) + zero), halves to even, by the exact quotient.
#version 450
#extension GL_GOOGLE_include_directive : require
#define OUTPUT INTEGER
#define OUTPUT_BITS INTEGER_BITS
#include "elementwise/quantized_blocks.glsl"
#include "quantization.glsl"

uint result_of(Places places)
{
    int zero = 0;
    if (HAS_ZERO) {
        zero = int(INTEGER_AT(zero, places.zero));
    }
    uint scale = NUMBER_AT(scale, places.scale);
    uint x = NUMBER_AT(source, places.source);
    return CONCATENATE(saturated_, INTEGER)(FORM(rounded_quotient, NUMBER)(x, scale) + zero);
}
