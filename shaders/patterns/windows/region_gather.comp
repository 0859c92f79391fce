// ROI_ALIGN_GRAD, OutputGradient: each element gathers its part of all regions' gradients.
// ROI_ALIGN_GRAD: what each element of the input has in the outputs of all regions, times their gradients.
//
// Elements gather, so that nothing is added by two invocations: of the regions by rising number, of a region's outputs row by row, in
// two words. With AVERAGE an output has the product of the two weights of region_weights.comp in an element; with MAX those of the
// sample that was the largest. An invocation has four channels of an element, and its neighbours the other channels: they share
// the regions and the bounds, so that none waits for another. A work group first looks which regions reach any of its elements.
//
// Where that takes more turns than a loop has everywhere, each of several launches takes some regions, or some rows or columns of one
// region's outputs, and hands on its sums. The compile script passes INPUT, INPUT_BITS, IS_LINEAR and IS_AVERAGE.

#include "datatypes.glsl"
#include "any_sums.glsl"
#include "arithmetic.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_tables; // where operands begin in their buffers, in words
    uint base_gradient, base_output, base_state;
    uint work_items; // in this launch
    uint first_item; // the number of the first one
    uint weights;    // where in the tables region_weights.comp's begin, in words
    uint winners;    // the same of the numbers of the largest samples
    uint first_weighted; // the region of which these weights are the first
    uint first_region; // what this launch takes
    uint end_region, first_row, end_row, first_column, end_column;
    uint is_part; // 1: there are sums to go on from, 2: sums are handed on, 3: both
    uint input_offset; // the bits of float32
    uint output_offset, batches, channels, height, width, output_height, output_width;
    uint gradient_stride_0; // elements from one to the next along an axis
    uint gradient_stride_1, gradient_stride_2, gradient_stride_3, output_stride_0, output_stride_1, output_stride_2;
    uint output_stride_3;
} parameters;

#define LANES 4
#include "buffers.glsl"
#if !IS_AVERAGE
#include "region_touches.glsl"
#endif

BUFFER(0, tables)
BUFFER(1, gradient)
BUFFER(2, output)
BUFFER(3, state)

layout(constant_id = 2) const bool IN_PARTS = false;
layout(constant_id = 3) const uint CHANNEL_LANES = 1u; // invocations of an element

#define CHANNELS_OF_ITEM 4u
#define STATE_WORDS 8u
#define BOUNDS (parameters.height + parameters.width)
#if IS_AVERAGE
#define WEIGHTS (parameters.output_height * parameters.height + parameters.output_width * parameters.width)
#else
#define WEIGHTS 0u
#endif

uint single_f32(uint x) { return x; }
uint single_f16(uint x) { return float32_from_float16(x); }
#define GRADIENT(at) FORM(single, INPUT)(LOAD(INPUT, words_gradient, BASE(INPUT_BITS, gradient) + (at)))

#define STATE(word) uintBitsToFloat(words_state[at + word])
#define HAND_ON(word, number) words_state[at + word] = floatBitsToUint(number);
TermSum sum_before(uint at) {
    return TermSum(Double(STATE(0u), STATE(1u)), Double(STATE(2u), STATE(3u)), Double(STATE(4u), STATE(5u)),
        words_state[at + 6u]);
}
void hand_on(uint at, TermSum sum) {
    HAND_ON(0u, sum.ordinary.high) HAND_ON(1u, sum.ordinary.low)
    HAND_ON(2u, sum.small.high) HAND_ON(3u, sum.small.low)
    HAND_ON(4u, sum.large.high) HAND_ON(5u, sum.large.low)
    words_state[at + 6u] = sum.flags;
}

// An element, and the output that is looked at.
struct Pairing {
    uint y, x;
    uint number; // of the output in the element's first channel, among all of all regions
    uint gradient_at; // of the element's first channel
    float weight;
    uvec2 row_axis; // start and step along y
    uvec2 column_axis;
};

void add_weighted(inout TermSum sum, float weight, uint gradient) {
    uint magnitude = gradient & MAGNITUDE_F32;
    precise float product = weight * uintBitsToFloat(gradient);
    bool is_plain = magnitude == 0u || magnitude >= 0x30800000u; // 2^-30; weights are 2^-96 at least
    add_number(sum, is_plain ? floatBitsToUint(product) : multiply_f32(floatBitsToUint(weight), gradient));
}

#if IS_AVERAGE
void add_output(inout TermSum sum, Pairing pairing, uint channel) {
    add_weighted(sum, pairing.weight, GRADIENT(pairing.gradient_at + channel * parameters.gradient_stride_1));
}
#else
#define NOWHERE 0xffffffffu
// The weight of an element along an axis in a sample; 0 where it has none.
float weight_along(uint k, uvec2 axis, uint extent, uint element) {
    int key = key_of(k, axis.x, axis.y, extent);
    bool touches = key == int(element) || (IS_LINEAR == 1 && key + 1 == int(element));
    return touches ? weight_of_sample(k, axis, extent, element) : 0.0;
}
void add_output(inout TermSum sum, Pairing pairing, uint channel) {
    uint outputs = parameters.output_height * parameters.output_width;
    uint at = BASE_WORD(tables) + parameters.winners + 2u * (pairing.number + channel * outputs);
    uvec2 winner = uvec2(words_tables[at], words_tables[at + 1u]);
    if (winner.x == NOWHERE) { return; }
    precise float weight = weight_along(winner.x, pairing.row_axis, parameters.height, pairing.y)
        * weight_along(winner.y, pairing.column_axis, parameters.width, pairing.x);
    if (!is_zero(weight)) {
        add_weighted(sum, weight, GRADIENT(pairing.gradient_at + channel * parameters.gradient_stride_1));
    }
}
#endif

uint result_of(TermSum sum) {
    if (is_special_sum(sum.flags)) { return FORM(special_result, INPUT)(sum.flags); }
    int exponent;
    Double total = sum_of_terms(sum, 1, exponent);
    return is_zero_number(total.high) ? 0u : FORM(result, INPUT)(total, exponent);
}

// From and to memory, where there is such a channel.
#define BEGIN_CHANNEL(sum, number) \
    TermSum sum = EMPTY_SUM; \
    if (IN_PARTS && (parameters.is_part & 1u) != 0u) { sum = sum_before(state + number * STATE_WORDS); }
#define ADD_CHANNEL(sum, number) \
    if (number < count) { add_output(sum, pairing, number); }
#define END_CHANNEL(sum, number) \
    if (IN_PARTS && (parameters.is_part & 2u) != 0u) { \
        hand_on(state + number * STATE_WORDS, sum); \
    } else if (number < count) { \
        STORE(INPUT_BITS, words_output, output_at + number * parameters.output_stride_1, result_of(sum)); \
    }
#define EACH_CHANNEL(DO) DO(sum_0, 0u) DO(sum_1, 1u) DO(sum_2, 2u) DO(sum_3, 3u)

// What an invocation gathers.
struct Element {
    uint batch, y, x;
    uint channel; // the first one
    uint count;   // of channels
};

Element element_at(uint number) {
    uint pixel = number / parameters.width;
    return Element(pixel / parameters.height, pixel % parameters.height, number % parameters.width, 0u, 0u);
}

#define OF_EACH_REGION (2u * BOUNDS + WEIGHTS)
uint weights_of(uint region) {
    return BASE_WORD(tables) + parameters.weights + (region - parameters.first_weighted) * OF_EACH_REGION;
}
uint table_of(uint region) {
    return BASE_WORD(tables) / 4u + region * (1u + parameters.output_height + parameters.output_width);
}

// Of a region, which outputs that this launch takes have some of an element: whether there are any.
bool has_outputs(uint region, Element element, out uvec2 rows, out uvec2 columns) {
    uint row_at = weights_of(region) + 2u * element.y;
    uint column_at = weights_of(region) + 2u * (parameters.height + element.x);
    rows = uvec2(words_tables[row_at], words_tables[row_at + 1u]);
    columns = uvec2(words_tables[column_at], words_tables[column_at + 1u]);
    rows = uvec2(max(rows.x, parameters.first_row), min(rows.y, parameters.end_row));
    columns = uvec2(max(columns.x, parameters.first_column), min(columns.y, parameters.end_column));
    uvec4 head = fours_tables[table_of(region)];
    return head.w != 0u && head.x == element.batch && rows.x < rows.y && columns.x < columns.y;
}

// The next 256 regions of which the work group's elements have something: a bit for each.
#define REGIONS_AT_ONCE 256u
#define ELEMENTS_OF_GROUP (256u / CHANNEL_LANES)
shared uint reaching[REGIONS_AT_ONCE / 32u];

bool reaches_any(uint region, uint first_element) {
    uint end = min(first_element + ELEMENTS_OF_GROUP, parameters.batches * parameters.height * parameters.width);
    uvec2 rows, columns;
    for (uint number = first_element; number < end; ++number) {
        if (has_outputs(region, element_at(number), rows, columns)) { return true; }
    }
    return false;
}

void find_reaching(uint first_region, uint first_element) {
    barrier(); // until all are through with those before
    uint index = index_in_group();
    if (index < REGIONS_AT_ONCE / 32u) { reaching[index] = 0u; }
    barrier();
    uint region = first_region + index;
    if (region < parameters.end_region && reaches_any(region, first_element)) {
        atomicOr(reaching[index / 32u], 1u << (index % 32u));
    }
    barrier();
}

// Adds what the element has in a region's outputs.
void add_region(inout TermSum sum_0, inout TermSum sum_1, inout TermSum sum_2, inout TermSum sum_3, uint region, Element element) {
    uvec2 rows, columns;
    if (!has_outputs(region, element, rows, columns)) { return; }
    uint channel = element.channel;
    uint count = element.count;
    uint gradient_at = region * parameters.gradient_stride_0 + channel * parameters.gradient_stride_1;
    for (uint row = rows.x; row < rows.y; ++row) {
        for (uint column = columns.x; column < columns.y; ++column) {
            Pairing pairing;
            pairing.gradient_at = gradient_at + row * parameters.gradient_stride_2 + column * parameters.gradient_stride_3;
#if IS_AVERAGE
            uint weights = weights_of(region) + 2u * BOUNDS;
            precise float weight = uintBitsToFloat(words_tables[weights + row * parameters.height + element.y])
                * uintBitsToFloat(words_tables[weights + parameters.output_height * parameters.height
                    + column * parameters.width + element.x]);
            if (floatBitsToUint(weight) == 0u) { continue; }
            pairing.weight = weight;
#else
            uint outputs = parameters.output_height * parameters.output_width;
            pairing.y = element.y;
            pairing.x = element.x;
            pairing.number = (region * parameters.channels + channel) * outputs + row * parameters.output_width + column;
            pairing.row_axis = fours_tables[table_of(region) + 1u + row].zw;
            pairing.column_axis = fours_tables[table_of(region) + 1u + parameters.output_height + column].zw;
#endif
            EACH_CHANNEL(ADD_CHANNEL)
        }
    }
}

void main() {
    WORK_ITEM(item) // all of a work group, or none
    uint fours = (parameters.channels + CHANNELS_OF_ITEM - 1u) / CHANNELS_OF_ITEM;
    uint groups_along_channels = (fours + CHANNEL_LANES - 1u) / CHANNEL_LANES;
    uint group = (parameters.first_item + item) / 256u;
    uint first_element = group / groups_along_channels * ELEMENTS_OF_GROUP;
    Element element = element_at(first_element + index_in_group() / CHANNEL_LANES);
    uint four = group % groups_along_channels * CHANNEL_LANES + index_in_group() % CHANNEL_LANES;
    element.channel = four * CHANNELS_OF_ITEM;
    if (element.batch < parameters.batches && four < fours) {
        element.count = min(parameters.channels - element.channel, CHANNELS_OF_ITEM);
    }
    uint count = element.count;
    uint state = BASE_WORD(state) + item * (CHANNELS_OF_ITEM * STATE_WORDS);
    EACH_CHANNEL(BEGIN_CHANNEL)
    for (uint first = parameters.first_region; first < parameters.end_region; first += REGIONS_AT_ONCE) {
        find_reaching(first, first_element);
        for (uint word = 0u; word < REGIONS_AT_ONCE / 32u && count > 0u; ++word) {
            for (uint left = reaching[word]; left != 0u; left &= left - 1u) {
                add_region(sum_0, sum_1, sum_2, sum_3, first + 32u * word + uint(findLSB(left)), element);
            }
        }
    }
    uint output_at = BASE(INPUT_BITS, output) + element.batch * parameters.output_stride_0
        + element.channel * parameters.output_stride_1 + element.y * parameters.output_stride_2
        + element.x * parameters.output_stride_3;
    EACH_CHANNEL(END_CHANNEL)
}
