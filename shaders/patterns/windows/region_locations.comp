// ROI_ALIGN, ROI_ALIGN1, ROI_ALIGN_GRAD: where the samples of each region lie.
// Where the samples of resized regions lie: a table that all channels share.
//
// For each region a head, {batch, samples of an output along y, the same along x, whether there is such a batch}, and behind it an
// entry for each row of the output and one for each column, {first, end, start, step}: of this row's samples those from `first` on,
// before `end`, lie inside of the input, and sample k lies at (k - OutputPixelOffset) * step + start - InputPixelOffset. Each step is
// rounded to float32, so places rise or fall with k, never both: the bounds are found by bisection. Where corners are not finite, or there
// is no such batch, none lies inside.

#include "datatypes.glsl"
#include "arithmetic.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_regions; // where operands begin in their buffers, in words
    uint base_batches, base_table;
    uint entries; // of all regions
    uint scale_x; // the bits of float32
    uint scale_y, input_offset, output_offset;
    uint fewest; // samples of an output along an axis
    uint most_x, most_y, batches, height, width, output_height, output_width;
    uint reaches_corners; // 0 or 1
    uint region_stride;   // elements from one to the next
    uint member_stride, batch_stride;
} parameters;

#define LANES 4
#include "buffers.glsl"
#include "region_samples.glsl"

BUFFER(0, regions)
BUFFER(1, batches)
BUFFER(2, table)

uint single_f32(uint x) { return x; }
uint single_f16(uint x) { return float32_from_float16(x); }

// A corner of a region, scaled: the bits of a float32.
uint corner_of(uint region, uint member, uint scale) {
    uint at = BASE(INPUT_BITS, regions) + region * parameters.region_stride + member * parameters.member_stride;
    return multiply_f32(FORM(single, INPUT)(LOAD(INPUT, words_regions, at)), scale);
}

// The batch of a region; `batches` or more, where there is no such one.
#if INDEX_BITS == 64
uint batch_of(uint region) {
    uvec2 batch = LOAD(uint64, words_batches, BASE(64, batches) + region * parameters.batch_stride);
    return batch.y == 0u ? batch.x : 0xffffffffu;
}
#else
uint batch_of(uint region) { return LOAD(uint32, words_batches, BASE(32, batches) + region * parameters.batch_stride); }
#endif

#define FAR_AWAY 0x7f000000u // 2^127

struct Axis {
    uint samples; // of each output
    bool is_finite;
    uint start, step;
};

bool is_finite_f32(uint x) { return int(x & MAGNITUDE_F32) < int(INFINITY_F32); }
uint number_bits(uint x) { return floatBitsToUint(float(int(x))); }

// |size| / outputs, rounded up.
uint samples_for(uint size, uint outputs) {
    uint share = divide_f32(size & MAGNITUDE_F32, number_bits(outputs));
    if (share >= 0x4b800000u) { return 1u << 24; }
    uint whole = whole_of(uintBitsToFloat(share));
    precise float rest = uintBitsToFloat(share) - float(int(whole));
    return whole + uint(floatBitsToInt(rest) > 0);
}

Axis axis_of(uint region, uint member, uint scale, uint outputs, uint most) {
    uint start = corner_of(region, member, scale);
    uint end = corner_of(region, member + 2u, scale);
    uint size = subtract_f32(end, start);
    if (!is_finite_f32(start) || !is_finite_f32(end) || !is_finite_f32(size)) {
        return Axis(1u, false, FAR_AWAY, 0u);
    }
    uint samples = min(max(samples_for(size, outputs), parameters.fewest), most);
    uint steps = samples * outputs - parameters.reaches_corners;
    if (steps == 0u) { return Axis(samples, true, add_f32(start, multiply_f32(size, 0x3f000000u)), 0u); }
    return Axis(samples, true, start, divide_f32(size, number_bits(steps)));
}

// The first sample from `first` on, before `end`, that is past one of the two bounds.
uint first_past(uint first, uint end, Axis axis, uint extent, bool is_lower_bound) {
    bool falls = int(axis.step) < 0;
    while (first < end) {
        uint middle = first + (end - first) / 2u;
        float location = location_of_sample(middle, axis.start, axis.step);
        bool is_past = is_lower_bound ? !is_before(location) : is_behind(location, extent);
        if (is_past != falls) {
            end = middle;
        } else {
            first = middle + 1u;
        }
    }
    return first;
}

uvec2 inside_of(uint number, Axis axis, uint extent) {
    uint begin = number * axis.samples;
    uint end = begin + axis.samples;
    bool falls = int(axis.step) < 0;
    uint first = first_past(begin, end, axis, extent, !falls);
    return uvec2(first, first_past(first, end, axis, extent, falls));
}

void main() {
    uint number = invocation_index();
    if (number >= parameters.entries) { return; }
    uint entries = parameters.output_height + parameters.output_width;
    uint region = number / entries;
    uint entry = number % entries;
    bool is_row = entry < parameters.output_height;
    uint location = is_row ? entry : entry - parameters.output_height;
    uint extent = is_row ? parameters.height : parameters.width;
    Axis axis = axis_of(region, is_row ? 1u : 0u, is_row ? parameters.scale_y : parameters.scale_x,
        is_row ? parameters.output_height : parameters.output_width, is_row ? parameters.most_y : parameters.most_x);
    uint batch = batch_of(region);
    uvec2 inside = uvec2(0u);
    if (axis.is_finite && batch < parameters.batches) { inside = inside_of(location, axis, extent); }
    uint head = BASE_WORD(table) + region * 4u * (entries + 1u);
    fours_table[head / 4u + 1u + entry] = uvec4(inside, axis.start, axis.step);
    if (location == 0u) {
        words_table[head + (is_row ? 1u : 2u)] = axis.samples;
        if (is_row) {
            words_table[head] = batch < parameters.batches ? batch : 0u;
            words_table[head + 3u] = uint(batch < parameters.batches);
        }
    }
}
