// Depthwise convolutions (a filter for each channel) of one segment whose input and output have their channels behind one another: forward
// cross-correlations without dilations. An invocation has CHANNELS neighbouring channels, which are 16 bytes, of BLOCK_COLUMNS neighbouring
// places of the output: what their windows see of a row of the input is loaded once, all channels at a time. Neighbouring invocations have
// neighbouring channels. The filter's channels lie behind one another, too.
//
// Padding counts as +0, which changes no bit where sums are finite: see matrix.glsl.
//
// With SHARES_LINES, for those who permit a device its own order of sums, so many invocations share a window: each takes every so many of its
// lines, and one of them adds their sums. A window's lines are waited for one after the other, so that is for work of few invocations.
//
// The compile script passes BLOCK_COLUMNS, INVOCATIONS and SHARES_LINES, which is 1 elsewhere.
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#include "products/matrix.glsl"

layout(local_size_x = INVOCATIONS) in;

#define ITEMS (INVOCATIONS / SHARES_LINES)

#define SEEN_COLUMNS ((BLOCK_COLUMNS - 1u) * OUTPUT_STEP_WIDTH + FILTER_WIDTH)

#if OPERAND_BITS == 32
#define CHANNELS 4u
#define OPERAND_AT(words, channel) operand(words[channel])
#define PUT(words, channel, result) words[channel] = result;
#else
#define CHANNELS 8u
#define OPERAND_AT(words, channel) operand((channel & 1u) == 0u ? words[channel >> 1u] & 0xffffu : words[channel >> 1u] >> 16u)
#define PUT(words, channel, result) words[channel >> 1u] |= (result) << ((channel & 1u) * 16u);
#endif

#if SHARES_LINES > 1
shared float sums_of_lines[SHARES_LINES - 1][CHANNELS * BLOCK_COLUMNS][ITEMS];
#endif

void main() {
    uint own_item = index_in_group() % ITEMS;
    uint own_line = index_in_group() / ITEMS;
    uint item = work_group_index() * ITEMS + own_item;
    uint parts = parameters.row_tiles; // of the channels
#if SHARES_LINES > 1
    bool exists = item < parts * parameters.column_tiles;
    item = exists ? item : 0u;
#else
    if (item >= parts * parameters.column_tiles) { return; }
#endif
    uint block = item / parts;
    uint first_channel = (item - block * parts) * CHANNELS;
    uint across = (OUTPUT_WIDTH + (BLOCK_COLUMNS - 1u)) / BLOCK_COLUMNS;
    uint line = block / across;
    uint image = line / OUTPUT_HEIGHT;
    uint first_width = (block - line * across) * BLOCK_COLUMNS;
    uint own_height = line - image * OUTPUT_HEIGHT;
    uint height = own_height * OUTPUT_STEP_HEIGHT + FIRST_HEIGHT; // of the first element that is seen: modulo 2^32, where it is padding
    uint width = first_width * OUTPUT_STEP_WIDTH + FIRST_WIDTH;
    uint left = BASE(OPERAND_BITS, left) + first_channel;
    uint right = BASE(OPERAND_BITS, right) + first_channel + image * parameters.input_image;

    float sums[CHANNELS * BLOCK_COLUMNS];
    [[unroll]] for (uint i = 0u; i < CHANNELS * BLOCK_COLUMNS; ++i) {
        sums[i] = 0.0;
    }
    uint left_lowest = NO_LOWEST;
    uint right_lowest = NO_LOWEST;
    for (uint y = own_line; y < FILTER_HEIGHT; y += SHARES_LINES) {
        bool is_inside = height + y < INPUT_HEIGHT;
        uint at = right + (height + y) * parameters.input_height + width * parameters.input_width;
        uvec4 seen[SEEN_COLUMNS];
        [[unroll]] for (uint k = 0u; k < SEEN_COLUMNS; ++k) {
            seen[k] = is_inside && width + k < INPUT_WIDTH ? fours_right[(at + k * parameters.input_width) / CHANNELS] : uvec4(0u);
        }
        [[unroll]] for (uint x = 0u; x < FILTER_WIDTH; ++x) {
            uvec4 weights = fours_left[(left + (y * FILTER_WIDTH + x) * parameters.left_term) / CHANNELS];
            [[unroll]] for (uint c = 0u; c < CHANNELS; ++c) {
                uint weight = OPERAND_AT(weights, c);
                left_lowest = min(left_lowest, lowest_of(weight));
                [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                    uint element = OPERAND_AT(seen[j * OUTPUT_STEP_WIDTH + x], c);
                    right_lowest = min(right_lowest, lowest_of(element));
                    uint sum = c * BLOCK_COLUMNS + j;
                    sums[sum] = product_plus(uintBitsToFloat(weight), uintBitsToFloat(element), sums[sum]);
                }
            }
        }
    }
#if SHARES_LINES > 1
    if (own_line > 0u) {
        [[unroll]] for (uint i = 0u; i < CHANNELS * BLOCK_COLUMNS; ++i) {
            sums_of_lines[own_line - 1u][i][own_item] = sums[i];
        }
    }
    barrier();
    if (own_line > 0u || !exists) { return; }
    [[unroll]] for (uint i = 0u; i < CHANNELS * BLOCK_COLUMNS; ++i) {
        [[unroll]] for (uint other = 0u; other < SHARES_LINES - 1; ++other) {
            sums[i] = rounded_sum(sums[i], sums_of_lines[other][i][own_item]);
        }
    }
#endif
    bool plain = true;
#if LOOKS_AT_DENORMALS
    plain = has_no_denormals(left_lowest, right_lowest);
#endif
    [[unroll]] for (uint i = 0u; i < CHANNELS * BLOCK_COLUMNS; ++i) {
        plain = plain && is_finite(sums[i]);
    }
    uint line_of_columns = line * OUTPUT_WIDTH;
    uint groups = parts * CHANNELS;
    if (!plain) {
        // In a loop: an exact sum is long, and would be copied for each of them.
        for (uint i = 0u; i < CHANNELS * BLOCK_COLUMNS; ++i) {
            Batch batch = batch_at(first_channel + i / BLOCK_COLUMNS, groups, 0u);
            uint column = line_of_columns + min(first_width + i % BLOCK_COLUMNS, OUTPUT_WIDTH - 1u);
            float sum = uintBitsToFloat(exact_sum(batch, 0u, column, 0u, parameters.terms));
            [[unroll]] for (uint k = 0u; k < CHANNELS * BLOCK_COLUMNS; ++k) {
                sums[k] = i == k ? sum : sums[k];
            }
        }
    }
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
        if (first_width + j < OUTPUT_WIDTH) {
            uint column = line_of_columns + first_width + j;
            uvec4 words = uvec4(0u);
            [[unroll]] for (uint c = 0u; c < CHANNELS; ++c) {
                Batch batch = batch_at(first_channel + c, groups, 0u);
                uint sum = floatBitsToUint(sums[c * BLOCK_COLUMNS + j]);
                sum = sum == SIGN_F32 ? 0u : sum; // drivers may take 0.0 + product for the product
                uint result = finished(batch, sum, 0u, column);
                PUT(words, c, result)
            }
            fours_output[output_index(batch_at(first_channel, groups, 0u), 0u, column) / CHANNELS] = words;
        }
    }
}
