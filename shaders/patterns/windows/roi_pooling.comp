// ROI_POOLING: the largest element of each bin of each region of interest.
//
// A bin may have any number of elements, so each launch takes TAPS of them and goes on from what the launch before it has found.
// Elements are compared as integers of the same order: of a number and NaN the number is taken, +0 is above -0. A bin of
// nothing but NaN gives the canonical one; an empty bin, and a region whose batch there is not, 0.

#include "datatypes.glsl"
#include "comparison.glsl"
#include "resampling.glsl"
#include "rounding.glsl"
#include "float16.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_input; // where operands begin in their buffers, in words
    uint base_regions, base_output;
    uint elements; // of the output
    uint first_tap; // of each bin, in this launch
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, input)
BUFFER(1, regions)
BUFFER(2, output)

layout(constant_id = 2) const uint SCALE = 0x3f800000u; // the bits of a float32
layout(constant_id = 3) const uint BATCHES = 1u;
layout(constant_id = 4) const uint CHANNELS = 1u;
layout(constant_id = 5) const uint HEIGHT = 1u;
layout(constant_id = 6) const uint WIDTH = 1u;
layout(constant_id = 7) const uint POOLED_HEIGHT = 1u;
layout(constant_id = 8) const uint POOLED_WIDTH = 1u;
#define STRIDES(name, first_id) \
    layout(constant_id = first_id) const uint name##_STRIDE_0 = 0u; \
    layout(constant_id = first_id + 1) const uint name##_STRIDE_1 = 0u; \
    layout(constant_id = first_id + 2) const uint name##_STRIDE_2 = 0u; \
    layout(constant_id = first_id + 3) const uint name##_STRIDE_3 = 0u;
STRIDES(INPUT, 9) STRIDES(REGION, 13) STRIDES(OUTPUT, 17)

#define TAPS 32768u

int order_f32(uint x) { return rank_f32(x, BELOW_ALL); }
int order_f16(uint x) { return is_nan_f16(x) ? BELOW_ALL : rank_f32(x << 16, BELOW_ALL); }
uint number_f32(int order) { return order == BELOW_ALL ? 0x7fc00000u : uint(order ^ ((order >> 31) & 0x7fffffff)); }
uint number_f16(int order) { return order == BELOW_ALL ? NAN_F16 : uint(order ^ ((order >> 31) & 0x7fffffff)) >> 16; }
uint single_f32(uint x) { return x; }
uint single_f16(uint x) { return float32_from_float16(x); }

// A member of a region: the bits of a float32.
uint member_of(uint region, uint number) {
    uint at = region * REGION_STRIDE_2 + number * REGION_STRIDE_3;
    return without_denormal(FORM(single, INPUT)(LOAD(INPUT, words_regions, BASE(INPUT_BITS, regions) + at)));
}

// A coordinate in the input: scaled, rounded, within -2^30 and 2^30; 0 for NaN.
int coordinate_of(uint region, uint number) {
    precise float scaled = uintBitsToFloat(member_of(region, number)) * uintBitsToFloat(SCALE);
    uint rounded = rounded_f32(floatBitsToUint(scaled), HALVES_AWAY_FROM_ZERO);
    uint magnitude = rounded & 0x7fffffffu;
    int whole = int(whole_of(uintBitsToFloat(min(magnitude, 0x4e800000u))));
    whole = magnitude > 0x7f800000u ? 0 : whole;
    return int(rounded) < 0 ? -whole : whole;
}

// The elements from `first` on, before `end`.
struct Span {
    int first, end;
};
Span span_of(int low, int high, uint location, uint locations, uint extent) {
    uint size = (high > low ? uint(high) - uint(low) : 0u) + 1u; // up to 2^31 + 1
    uint whole = size / locations;
    uint rest = size % locations;
    int first = int(uint(low) + location * whole + location * rest / locations);
    int end = int(uint(low) + (location + 1u) * whole + ((location + 1u) * rest + locations - 1u) / locations);
    return Span(min(max(first, 0), int(extent)), min(max(end, 0), int(extent)));
}

// The batch of a region; BATCHES, where there is no such one.
uint batch_of(uint region) {
    uint bits = member_of(region, 0u);
    bits = bits == 0x80000000u ? 0u : bits;
    return bits < 0x4f000000u ? min(whole_of(uintBitsToFloat(bits)), BATCHES) : BATCHES;
}

void main() {
    uint element = invocation_index();
    if (element >= parameters.elements) { return; }
    uint x = element % POOLED_WIDTH;
    uint y = element / POOLED_WIDTH % POOLED_HEIGHT;
    uint channel = element / (POOLED_WIDTH * POOLED_HEIGHT) % CHANNELS;
    uint region = element / (POOLED_WIDTH * POOLED_HEIGHT) / CHANNELS;
    uint batch = batch_of(region);
    Span across = span_of(coordinate_of(region, 1u), coordinate_of(region, 3u), x, POOLED_WIDTH, WIDTH);
    Span down = span_of(coordinate_of(region, 2u), coordinate_of(region, 4u), y, POOLED_HEIGHT, HEIGHT);
    uint columns = uint(across.end - across.first);
    uint taps = batch < BATCHES ? columns * uint(down.end - down.first) : 0u;
    uint first = parameters.first_tap;
    if (first > 0u && taps <= first) { return; }
    uint at = BASE(INPUT_BITS, output) + region * OUTPUT_STRIDE_0 + channel * OUTPUT_STRIDE_1 + y * OUTPUT_STRIDE_2
        + x * OUTPUT_STRIDE_3;
    int largest = BELOW_ALL;
    if (first > 0u) { largest = FORM(order, INPUT)(LOAD(INPUT, words_output, at)); }
    uint begin = BASE(INPUT_BITS, input) + batch * INPUT_STRIDE_0 + channel * INPUT_STRIDE_1;
    uint end = min(taps, first + TAPS);
    for (uint tap = first; tap < end; ++tap) {
        uint row = uint(down.first) + tap / columns;
        uint column = uint(across.first) + tap % columns;
        largest = max(largest, FORM(order, INPUT)(LOAD(INPUT, words_input, begin + row * INPUT_STRIDE_2 + column * INPUT_STRIDE_3)));
    }
    uint result = taps > 0u ? FORM(number, INPUT)(largest) : 0u;
    STORE(INPUT_BITS, words_output, at, result);
}
