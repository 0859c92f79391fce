// DYNAMIC_QUANTIZE_LINEAR: the scale and the zero point that follow from the smallest and the largest element.
//
// The range is widened to include 0. The scale is its 255th part; 1 / 255 where that is 0. A range beyond the largest number is
// halved first. The zero point is the integer nearest to LEAST - smallest / scale, halves to even, saturated.
#ifndef RANGE_SCALE_GLSL
#define RANGE_SCALE_GLSL

#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_smallest; // where operands begin in their buffers, in words
    uint base_largest, base_scale, base_zero;
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, smallest)
BUFFER(1, largest)
BUFFER(2, scale)
BUFFER(3, zero)

#include "arithmetic.glsl"
#include "division.glsl"
#include "quantization.glsl"

#define LEAST CONCATENATE(LEAST_, OUTPUT)
#define LEAST_uint8 0
#define LEAST_int8 -128

#define STEPS_F32 0x437f0000u      // 255
#define HALF_STEPS_F32 0x42ff0000u // 127.5
#define HALF_F32 0x3f000000u

void main() {
    if (invocation_index() != 0u) { return; }
    uint smallest = words_smallest[BASE_WORD(smallest)];
    uint largest = words_largest[BASE_WORD(largest)];
    smallest = int(smallest) < 0 ? smallest : 0u;
    largest = int(largest) < 0 ? 0u : largest; // NaN stays
    uint range = subtract_f32(largest, smallest);
    uint scale = divide_f32(range, STEPS_F32);
    if (range == INFINITY_F32) {
        uint half_range = subtract_f32(multiply_f32(largest, HALF_F32), multiply_f32(smallest, HALF_F32));
        scale = divide_f32(half_range, HALF_STEPS_F32);
    }
    if (scale == 0u) { scale = divide_f32(ONE_F32, STEPS_F32); }
    words_scale[BASE_WORD(scale)] = scale;
    uint value = CONCATENATE(saturated_, OUTPUT)(LEAST - rounded_quotient_f32(smallest, scale));
    STORE(8, words_zero, BASE(8, zero), value);
}

#endif
