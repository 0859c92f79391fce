// ROI_ALIGN_GRAD, OutputROIGradient: sums over parts of a region's outputs.
// ROI_ALIGN_GRAD, OutputROIGradient: how outputs change with the corners of their region, times their gradients; sums over parts of a
// region's outputs.
//
// Of a sample between four elements, top and bottom, left and right, at the fractions fx and fy behind them,
//     along x: (right - left) of the top and of the bottom, averaged by fy; 0 where fx is 0
// is how it changes with its place, which moves with the region's start by 1 - u, with its end by u, u = (k - OutputPixelOffset) / span;
// likewise along y. Each step is rounded to float32, denormals are zero; the four sums are made in two words. SpatialScale, and the samples
// that AVERAGE divides by, come with region_totals.comp.
//
// An invocation adds SAMPLES_AT_ONCE samples of each output of its part, then the next ones: in one launch, or in one for each such
// round. The compile script passes INPUT, INPUT_BITS and IS_AVERAGE.

#include "datatypes.glsl"
#include "any_sums.glsl"
#include "weighting.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_input; // where operands begin in their buffers, in words
    uint base_tables, base_gradient, base_sums, work_items;
    uint first_region; // of this launch
    uint winners; // where in the tables the numbers of the largest samples begin, in words
    uint first;   // samples of each output
    uint end, samples_at_once;
    uint parts; // of a region
    uint outputs_of_part, reaches_corners;
    uint input_offset; // the bits of float32
    uint output_offset, channels, height, width, output_height, output_width;
    uint input_stride_0; // elements from one to the next along an axis
    uint input_stride_1, input_stride_2, input_stride_3, gradient_stride_0, gradient_stride_1, gradient_stride_2;
    uint gradient_stride_3;
} parameters;

#define LANES 4
#include "buffers.glsl"
#include "region_samples.glsl"

BUFFER(0, input)
BUFFER(1, tables)
BUFFER(2, gradient)
BUFFER(3, sums)

#define WORDS_OF_PART 32u
#define NOWHERE 0xffffffffu

uint single_f32(uint x) { return x; }
uint single_f16(uint x) { return float32_from_float16(x); }
#define ELEMENT(at) FORM(single, INPUT)(LOAD(INPUT, words_input, BASE(INPUT_BITS, input) + (at)))
#define GRADIENT(at) FORM(single, INPUT)(LOAD(INPUT, words_gradient, BASE(INPUT_BITS, gradient) + (at)))

// The sums for x1, y1, x2 and y2.
struct Slopes {
    TermSum left, top, right, bottom;
};

#define WORD(word) uintBitsToFloat(words_sums[at + word])
#define HAND_ON(word, number) words_sums[at + word] = floatBitsToUint(number);
TermSum sum_before(uint at) {
    return TermSum(Double(WORD(0u), WORD(1u)), Double(WORD(2u), WORD(3u)), Double(WORD(4u), WORD(5u)), words_sums[at + 6u]);
}
void hand_on(uint at, TermSum sum) {
    HAND_ON(0u, sum.ordinary.high) HAND_ON(1u, sum.ordinary.low)
    HAND_ON(2u, sum.small.high) HAND_ON(3u, sum.small.low)
    HAND_ON(4u, sum.large.high) HAND_ON(5u, sum.large.low)
    words_sums[at + 6u] = sum.flags;
}

// 1 / (outputs * samples), or of one less; 0 where that is 0.
float inverse_span(uint samples, uint outputs) {
    uint span = samples * outputs - parameters.reaches_corners;
    return span == 0u ? 0.0 : uintBitsToFloat(divide_f32(ONE_F32, floatBitsToUint(float(int(span)))));
}

// How a sample moves with the region's end; with its start by the rest to 1.
float share_of_end(uint k, float inverse) {
    precise float offset = float(int(k)) - uintBitsToFloat(parameters.output_offset);
    precise float share = offset * inverse;
    return is_zero(inverse) ? 0.5 : uintBitsToFloat(without_denormal(floatBitsToUint(share)));
}

void add_slope(inout TermSum of_start, inout TermSum of_end, uint slope, float share) {
    precise float rest = 1.0 - share;
    add_number(of_start, multiply_f32(slope, floatBitsToUint(rest)));
    add_number(of_end, multiply_f32(slope, floatBitsToUint(share)));
}

// The sample k (along x and y) of the output of which these are the entries, times its gradient.
void add_sample(inout Slopes slopes, uint begin, uvec2 k, uvec2 column_axis, uvec2 row_axis, vec2 inverse, uint gradient) {
    Between column = between(location_between(k.x, column_axis.x, column_axis.y, parameters.width));
    Between row = between(location_between(k.y, row_axis.x, row_axis.y, parameters.height));
    bool has_x = !is_zero(column.fraction);
    bool has_y = !is_zero(row.fraction);
    uint at = begin + column.element * parameters.input_stride_3 + row.element * parameters.input_stride_2;
    uint right = has_x ? parameters.input_stride_3 : 0u;
    uint below = has_y ? parameters.input_stride_2 : 0u;
    uvec4 bits = uvec4(ELEMENT(at), ELEMENT(at + right), ELEMENT(at + below), ELEMENT(at + below + right));
    if (has_x) {
        uint slope = weighted_slowly(subtract_f32(bits.y, bits.x), subtract_f32(bits.w, bits.z), row.fraction);
        add_slope(slopes.left, slopes.right, multiply_f32(slope, gradient), share_of_end(k.x, inverse.x));
    }
    if (has_y) {
        uint slope = weighted_slowly(subtract_f32(bits.z, bits.x), subtract_f32(bits.w, bits.y), column.fraction);
        add_slope(slopes.top, slopes.bottom, multiply_f32(slope, gradient), share_of_end(k.y, inverse.y));
    }
}

// Some samples of an output.
void add_output(inout Slopes slopes, uint region, uint number, uint first, vec2 inverse) {
    uint x = number % parameters.output_width;
    uint y = number / parameters.output_width % parameters.output_height;
    uint channel = number / parameters.output_width / parameters.output_height;
    uint table = BASE_WORD(tables) / 4u + region * (1u + parameters.output_height + parameters.output_width);
    uvec4 row = fours_tables[table + 1u + y];
    uvec4 column = fours_tables[table + 1u + parameters.output_height + x];
    uint begin = fours_tables[table].x * parameters.input_stride_0 + channel * parameters.input_stride_1;
    uint gradient = GRADIENT(region * parameters.gradient_stride_0 + channel * parameters.gradient_stride_1
        + y * parameters.gradient_stride_2 + x * parameters.gradient_stride_3);
#if IS_AVERAGE
    uint columns = column.y - column.x;
    uint end = min(first + parameters.samples_at_once, (row.y - row.x) * columns);
    uint tap = first;
    uvec2 k = uvec2(column.x + tap % max(columns, 1u), row.x + tap / max(columns, 1u));
    for (; tap < end; ++tap) {
        add_sample(slopes, begin, k, column.zw, row.zw, inverse, gradient);
        k.x += 1u;
        if (k.x == column.y) { k = uvec2(column.x, k.y + 1u); }
    }
#else
    uint outputs = parameters.channels * parameters.output_height * parameters.output_width;
    uint at = BASE_WORD(tables) + parameters.winners + 2u * (region * outputs + number);
    uvec2 winner = uvec2(words_tables[at + 1u], words_tables[at]);
    if (winner.x != NOWHERE) { add_sample(slopes, begin, winner, column.zw, row.zw, inverse, gradient); }
#endif
}

void main() {
    WORK_ITEM(item)
    uint region = parameters.first_region + item / parameters.parts;
    uint outputs = parameters.channels * parameters.output_height * parameters.output_width;
    uint begin = item % parameters.parts * parameters.outputs_of_part;
    uint stop = min(begin + parameters.outputs_of_part, outputs);
    uvec4 head = fours_tables[BASE_WORD(tables) / 4u + region * (1u + parameters.output_height + parameters.output_width)];
    uint at = BASE_WORD(sums) + item * WORDS_OF_PART;
    // No output has more samples than that; of so many the product does not fit.
    uint most = max(head.y, head.z) < 65536u ? head.y * head.z : 0xffffffffu;
    if (parameters.first != 0u && parameters.first >= most) { return; }
    Slopes slopes = Slopes(EMPTY_SUM, EMPTY_SUM, EMPTY_SUM, EMPTY_SUM);
    if (parameters.first != 0u) {
        slopes = Slopes(sum_before(at), sum_before(at + 8u), sum_before(at + 16u), sum_before(at + 24u));
    }
    vec2 inverse = vec2(inverse_span(head.z, parameters.output_width), inverse_span(head.y, parameters.output_height));
    for (uint first = parameters.first; first < min(parameters.end, most); first += parameters.samples_at_once) {
        for (uint number = begin; number < stop; ++number) { add_output(slopes, region, number, first, inverse); }
    }
    hand_on(at, slopes.left);
    hand_on(at + 8u, slopes.top);
    hand_on(at + 16u, slopes.right);
    hand_on(at + 24u, slopes.bottom);
}
