// ROI_ALIGN, ROI_ALIGN1: the average or the largest of the samples of each output.
// ROI_ALIGN, ROI_ALIGN1: of each region's samples, which region_locations.comp has placed, those of an output are averaged, or the
// largest is taken.
//
// Where an output may have more samples than a loop has turns everywhere, each of several launches takes those from `first` on, before
// `end`, and hands on what it has found in STATE_WORDS for each of its elements.
//
// The compile script passes INPUT, INPUT_BITS, IS_LINEAR (how a sample is taken), IS_MAXIMUM (what becomes of them) and IS_WINNER: then
// the output is {k along y, k along x} of the largest sample, the first one of several, for ROI_ALIGN_GRAD; NOWHERE of one outside.

#extension GL_EXT_control_flow_attributes : enable

#include "datatypes.glsl"
#include "any_sums.glsl"
#include "comparison.glsl"
#include "weighting.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_input; // where operands begin in their buffers, in words
    uint base_table, base_output, base_state;
    uint elements;      // of the output, in this launch
    uint first_element; // the number of the first one
    uint first;         // of each element's samples inside
    uint end;
    uint outside; // the bits of float32
    uint input_offset, output_offset, channels, height, width, output_height, output_width;
    uint input_stride_0; // elements from one to the next along an axis
    uint input_stride_1, input_stride_2, input_stride_3, output_stride_0, output_stride_1, output_stride_2;
    uint output_stride_3;
} parameters;

#define LANES 4
#include "buffers.glsl"
#include "region_samples.glsl"

BUFFER(0, input)
BUFFER(1, table)
BUFFER(2, output)
BUFFER(3, state)

layout(constant_id = 2) const bool IN_PARTS = false;

uint single_f32(uint x) { return x; }
uint single_f16(uint x) { return float32_from_float16(x); }
#define ELEMENT(at) FORM(single, INPUT)(LOAD(INPUT, words_input, BASE(INPUT_BITS, input) + (at)))

// A row of samples: the element where it begins, and how far the row below it lies, and by what fraction.
struct SampleRow {
    uint at, below;
    float fraction;
};

#if IS_LINEAR
SampleRow row_of(uint begin, float location) {
    Between row = between(location);
    return SampleRow(begin + row.element * parameters.input_stride_2, is_zero(row.fraction) ? 0u : parameters.input_stride_2, row.fraction);
}
uint sample_of(SampleRow row, float location) {
    Between column = between(location);
    uint at = row.at + column.element * parameters.input_stride_3;
    uint right = is_zero(column.fraction) ? 0u : parameters.input_stride_3;
    uvec4 bits = uvec4(ELEMENT(at), ELEMENT(at + right), ELEMENT(at + row.below), ELEMENT(at + row.below + right));
    uint result = weighted_four(bits, column.fraction, row.fraction);
#if INPUT_BITS == 32
    if (has_tiny(bits)) { result = weighted_four_slowly(bits, column.fraction, row.fraction); }
#endif
    return without_denormal(result);
}
#else
SampleRow row_of(uint begin, float location) {
    return SampleRow(begin + nearest_element(location, NEAREST_OR_LOWER) * parameters.input_stride_2, 0u, 0.0);
}
uint sample_of(SampleRow row, float location) {
    return ELEMENT(row.at + nearest_element(location, NEAREST_OR_LOWER) * parameters.input_stride_3);
}
#endif

// How many samples there are, and how many of them lie outside.
struct Counts {
    Double all, outside;
};
Counts counts_of(uvec4 head, uint rows, uint columns) {
    Double all = two_product(float(int(head.y)), float(int(head.z)));
    Double inside = two_product(float(int(rows)), float(int(columns)));
    return Counts(all, double_sum(all, Double(-inside.high, -inside.low)));
}

#if IS_WINNER
struct Found {
    int rank;
    uvec2 sample_number;
};
#define NOWHERE 0xffffffffu
#define NOTHING Found(BELOW_ALL, uvec2(NOWHERE))
#define STATE_WORDS 3u
Found found_before(uint at) { return Found(int(words_state[at]), uvec2(words_state[at + 1u], words_state[at + 2u])); }
void hand_on(uint at, Found found) {
    words_state[at] = uint(found.rank);
    words_state[at + 1u] = found.sample_number.x;
    words_state[at + 2u] = found.sample_number.y;
}
Found with_sample(Found found, uint bits, uvec2 number) {
    int rank = rank_f32(bits, BELOW_ALL);
    if (rank > found.rank || found.sample_number.x == NOWHERE) { return Found(rank, number); }
    return found;
}

uvec2 result_of(Found found, Counts counts) {
    bool is_outside = !is_zero_number(counts.outside.high) && rank_f32(parameters.outside, BELOW_ALL) > found.rank;
    return is_outside ? uvec2(NOWHERE) : found.sample_number;
}
#elif IS_MAXIMUM
#define Found int
#define NOTHING BELOW_ALL
#define STATE_WORDS 1u
Found found_before(uint at) { return int(words_state[at]); }
void hand_on(uint at, Found found) { words_state[at] = uint(found); }
Found with_sample(Found found, uint bits, uvec2 number) { return max(found, rank_f32(bits, BELOW_ALL)); }

uint number_of(int rank) { return rank == BELOW_ALL ? NAN_F32 : uint(rank ^ ((rank >> 31) & 0x7fffffff)); }
uint result_of(Found found, Counts counts) {
    if (!is_zero_number(counts.outside.high)) { found = with_sample(found, parameters.outside, uvec2(0u)); }
#if INPUT_BITS == 32
    return number_of(found);
#else
    return float16_from_float32(number_of(found));
#endif
}
#else
#define Found TermSum
#define NOTHING EMPTY_SUM
#define STATE_WORDS 8u
#define STATE(word) uintBitsToFloat(words_state[at + word])
#define HAND_ON(word, number) words_state[at + word] = floatBitsToUint(number);
Found found_before(uint at) {
    return TermSum(Double(STATE(0u), STATE(1u)), Double(STATE(2u), STATE(3u)), Double(STATE(4u), STATE(5u)),
        words_state[at + 6u]);
}
void hand_on(uint at, Found found) {
    HAND_ON(0u, found.ordinary.high) HAND_ON(1u, found.ordinary.low)
    HAND_ON(2u, found.small.high) HAND_ON(3u, found.small.low)
    HAND_ON(4u, found.large.high) HAND_ON(5u, found.large.low)
    words_state[at + 6u] = found.flags;
}
Found with_sample(Found found, uint bits, uvec2 number) {
    add_number(found, bits);
    return found;
}

uint result_of(Found found, Counts counts) {
    if (!is_zero_number(counts.outside.high)) { add_multiple(found, parameters.outside, counts.outside); }
    if (is_special_sum(found.flags)) { return FORM(special_result, INPUT)(found.flags); }
    int exponent;
    Double total = sum_of_terms(found, 1, exponent);
    if (is_zero_number(total.high)) { return 0u; }
    Double average;
    if (floatBitsToInt(counts.all.high) < 0x45800000) { // 4096
        Double words = quotient_by_few(total, counts.all.high);
        average = fast_two_sum(words.high, words.low);
    } else {
        average = quotient(total, counts.all);
    }
    int own = int((floatBitsToUint(average.high) >> 23) & 0xffu) - 127;
    return FORM(result, INPUT)(scaled_double(average, -own), exponent + own);
}
#endif

#if !IS_WINNER
void store_result(uint region, uint channel, uint y, uint x, uint result) {
    uint location = region * parameters.output_stride_0 + channel * parameters.output_stride_1 + y * parameters.output_stride_2
        + x * parameters.output_stride_3;
    STORE(INPUT_BITS, words_output, BASE(INPUT_BITS, output) + location, result);
}
#endif

// Averages of two times two samples inside, which are most: all of their elements are on their way together. On GPUs.
#define HAS_QUICK_AVERAGES (IS_LINEAR == 1 && IS_MAXIMUM == 0 && INPUT_BITS == 32)
#if HAS_QUICK_AVERAGES
layout(constant_id = 3) const bool IS_QUICK = false;

// Of two samples along an axis: where their elements lie, both of each, and how far they lie behind the first ones.
struct Pair {
    uvec4 at;
    vec2 fractions;
};
Pair pair_of(uvec4 entry, uint extent, uint stride) {
    Between first = between(location_between(entry.x, entry.z, entry.w, extent));
    Between second = between(location_between(entry.x + 1u, entry.z, entry.w, extent));
    uvec2 at = uvec2(first.element, second.element) * stride;
    uvec2 next = at + uvec2(is_zero(first.fraction) ? 0u : stride, is_zero(second.fraction) ? 0u : stride);
    return Pair(uvec4(at.x, next.x, at.y, next.y), vec2(first.fraction, second.fraction));
}

#define LEAST_QUICK 0x21800000u // 2^-60: of sums that are divided as they are

// The elements of four samples: two of the upper row, two of the lower one.
struct Elements {
    uvec4 samples[4];
};
Elements elements_of(uint begin, Pair y, Pair x) {
    Elements all;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uvec2 rows = begin + (i < 2u ? y.at.xy : y.at.zw);
        uvec2 columns = (i & 1u) == 0u ? x.at.xy : x.at.zw;
        all.samples[i] = uvec4(ELEMENT(rows.x + columns.x), ELEMENT(rows.x + columns.y), ELEMENT(rows.y + columns.x),
            ELEMENT(rows.y + columns.y));
    }
    return all;
}

// Their average. False where something is rare.
bool is_quick_average(Elements all, Pair y, Pair x, out uint result) {
    bool is_quick = true;
    Double sum = Double(0.0, 0.0);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uvec4 bits = all.samples[i];
        uint value = weighted_four(bits, (i & 1u) == 0u ? x.fractions.x : x.fractions.y, i < 2u ? y.fractions.x : y.fractions.y);
        uint magnitude = value & MAGNITUDE_F32;
        bool is_ordinary = magnitude - LEAST_ORDINARY_TERM < LEAST_LARGE_TERM - LEAST_ORDINARY_TERM;
        is_quick = is_quick && !has_tiny(bits) && (is_ordinary || magnitude == 0u);
        sum = with_number(sum, magnitude == 0u ? 0.0 : uintBitsToFloat(value));
    }
    Double words = quotient_by_few(sum, 4.0);
    precise float average = words.high + words.low;
    result = is_zero_number(sum.high) ? 0u : floatBitsToUint(average);
    return is_quick && (is_zero_number(sum.high) || (floatBitsToUint(sum.high) & MAGNITUDE_F32) >= LEAST_QUICK);
}
#endif

void main() {
    uint number = invocation_index();
    if (number >= parameters.elements) { return; }
    uint element = parameters.first_element + number;
    uint x = element % parameters.output_width;
    uint y = element / parameters.output_width % parameters.output_height;
    uint channel = element / (parameters.output_width * parameters.output_height) % parameters.channels;
    uint region = element / (parameters.output_width * parameters.output_height) / parameters.channels;
    uint at = BASE_WORD(table) / 4u + region * (1u + parameters.output_height + parameters.output_width);
    uvec4 row = fours_table[at + 1u + y];
    uvec4 column = fours_table[at + 1u + parameters.output_height + x];
    uint rows = row.y - row.x;
    uint columns = column.y - column.x;
    uint samples = rows * columns;
    uint tap = IN_PARTS ? parameters.first : 0u;
    if (tap > 0u && samples <= tap) { return; }
    Found found = NOTHING;
    uint state = BASE_WORD(state) + STATE_WORDS * number;
    if (tap > 0u) { found = found_before(state); }
    uvec4 head = fours_table[at];
    uint begin = head.x * parameters.input_stride_0 + channel * parameters.input_stride_1;
#if HAS_QUICK_AVERAGES
    if (IS_QUICK && !IN_PARTS && rows == 2u && columns == 2u && head.y * head.z == 4u) {
        Pair y_pair = pair_of(row, parameters.height, parameters.input_stride_2);
        Pair x_pair = pair_of(column, parameters.width, parameters.input_stride_3);
        uint average;
        if (is_quick_average(elements_of(begin, y_pair, x_pair), y_pair, x_pair, average)) {
            store_result(region, channel, y, x, average);
            return;
        }
    }
#endif
    uint end = IN_PARTS ? min(parameters.end, samples) : samples;
    uint k_y = row.x + tap / max(columns, 1u);
    uint k_x = column.x + tap % max(columns, 1u);
    while (tap < end) {
        SampleRow sample_row = row_of(begin, location_between(k_y, row.z, row.w, parameters.height));
        uint stop = min(k_x + (end - tap), column.y);
        tap += stop - k_x;
        for (; k_x < stop; ++k_x) {
            uint bits = sample_of(sample_row, location_between(k_x, column.z, column.w, parameters.width));
            found = with_sample(found, bits, uvec2(k_y, k_x));
        }
        k_x = column.x;
        k_y += 1u;
    }
    if (end < samples) {
        hand_on(state, found);
        return;
    }
#if IS_WINNER
    uvec2 winner = result_of(found, counts_of(head, rows, columns));
    words_output[BASE_WORD(output) + 2u * element] = winner.x;
    words_output[BASE_WORD(output) + 2u * element + 1u] = winner.y;
#else
    store_result(region, channel, y, x, result_of(found, counts_of(head, rows, columns)));
#endif
}
