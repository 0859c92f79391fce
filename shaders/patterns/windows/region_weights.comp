// ROI_ALIGN_GRAD: which outputs of a region have some of each row and each column of the input, and by what weight.
// ROI_ALIGN_GRAD: for each element along an axis of the input, which outputs of a region have some of it, and by what weight.
//
// For each region the bounds {first, end} of the outputs for each row and each column of the input; with IS_AVERAGE behind them
// the weights along y, a row for each row of the output, and those along x. A weight is the sum of the samples' weights, made in two
// words, divided by the samples of an output and rounded once.
//
// The compile script passes IS_LINEAR and IS_AVERAGE.

#include "datatypes.glsl"
#include "window_average.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_table; // where operands begin in their buffers, in words
    uint base_weights, work_items, first_region;
    uint input_offset; // the bits of float32
    uint output_offset, height, width, output_height, output_width;
} parameters;

#define LANES 4
#include "buffers.glsl"
#include "region_touches.glsl"

BUFFER(0, table)
BUFFER(1, weights)

#define BOUNDS (parameters.height + parameters.width)
#if IS_AVERAGE
#define WEIGHTS (parameters.output_height * parameters.height + parameters.output_width * parameters.width)
#else
#define WEIGHTS 0u
#endif

// The outputs that have some of an element; none where the region has no samples inside.
uvec2 outputs_of(uint element, uint samples, uint outputs, uvec4 entry, uint extent) {
    uvec2 found = touching(0u, samples * outputs, entry.zw, extent, element);
    return found.x < found.y ? uvec2(found.x / samples, (found.y - 1u) / samples + 1u) : uvec2(0u);
}

// The weight that an element has in an output.
uint weight_in(uint element, uint samples, uvec4 entry, uint extent) {
    uvec2 found = touching(entry.x, entry.y, entry.zw, extent, element);
    Double sum = Double(0.0, 0.0);
    for (uint k = found.x; k < found.y; ++k) {
        sum = with_number(sum, weight_of_sample(k, entry.zw, extent, element));
    }
    return is_zero(sum.high) ? 0u : floatBitsToUint(average_of(sum, samples).high);
}

void main() {
    WORK_ITEM(item)
    uint own = BOUNDS + WEIGHTS;
    uint region = item / own;
    uint number = item % own;
    uint table = BASE_WORD(table) / 4u
        + (parameters.first_region + region) * (1u + parameters.output_height + parameters.output_width);
    uint at = BASE_WORD(weights) + region * (own + BOUNDS);
    uvec4 head = fours_table[table];
    bool is_bound = number < BOUNDS;
    uint location = is_bound ? number : number - BOUNDS;
    bool is_row = location < (is_bound ? parameters.height : parameters.output_height * parameters.height);
    uint extent = is_row ? parameters.height : parameters.width;
    uint samples = is_row ? head.y : head.z;
    uint entries = table + 1u + (is_row ? 0u : parameters.output_height);
    if (is_bound) {
        uint element = is_row ? location : location - parameters.height;
        uvec2 bounds = uvec2(0u);
        if (head.w != 0u) {
            uint outputs = is_row ? parameters.output_height : parameters.output_width;
            bounds = outputs_of(element, samples, outputs, fours_table[entries], extent);
        }
        words_weights[at + 2u * number] = bounds.x;
        words_weights[at + 2u * number + 1u] = bounds.y;
        return;
    }
#if IS_AVERAGE
    uint within = is_row ? location : location - parameters.output_height * parameters.height;
    uvec4 entry = fours_table[entries + within / extent];
    words_weights[at + BOUNDS + number] = weight_in(within % extent, samples, entry, extent);
#endif
}
