// DEQUANTIZE: f(x, scale, zero) = (x - zero) * scale, rounded once.
#define OUTPUT NUMBER
#define OUTPUT_BITS NUMBER_BITS
#include "elementwise/quantized_blocks.glsl"
#include "quantization.glsl"

uint result_of(Offsets offsets) {
    uint zero = 0u;
    if (HAS_ZERO) { zero = INTEGER_AT(zero, offsets.zero); }
    uint scale = NUMBER_AT(scale, offsets.scale);
    uint x = INTEGER_AT(source, offsets.source);
    return FORM(dequantized_short, NUMBER)(x, zero, scale);
}
