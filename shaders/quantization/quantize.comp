// QUANTIZE: f(x, scale, zero) = clamp(round(x / scale) + zero), halves to even, by the exact quotient.
#define OUTPUT INTEGER
#define OUTPUT_BITS INTEGER_BITS
#include "elementwise/quantized_blocks.glsl"
#include "quantization.glsl"

uint result_of(Offsets offsets) {
    int zero = 0;
    if (HAS_ZERO) { zero = int(INTEGER_AT(zero, offsets.zero)); }
    uint scale = NUMBER_AT(scale, offsets.scale);
    uint x = NUMBER_AT(source, offsets.source);
    return CONCATENATE(saturated_, INTEGER)(FORM(rounded_quotient, NUMBER)(x, scale) + zero);
}
