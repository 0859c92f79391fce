// Convolutions of one segment whose windows move over planes by the same step by which they go through them, depthwise ones above all: forward
// cross-correlations without dilations. An invocation computes a block of BLOCK_ROWS x BLOCK_COLUMNS places of the output, whose windows overlap:
// it goes down the rows that they see, and each element is loaded and looked at once for all of them. Neighbouring invocations have neighbouring
// blocks.
//
// Padding is left out, which changes no bit: see matrix.glsl. The compile script passes BLOCK_ROWS, BLOCK_COLUMNS (even for FLOAT16) and INVOCATIONS.
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#include "matrix.glsl"

layout(local_size_x = INVOCATIONS) in;

#define FILTER_PLACES (FILTER_HEIGHT * FILTER_WIDTH)
#define SEEN_ROWS ((BLOCK_ROWS - 1u) * OUTPUT_STEP_HEIGHT + FILTER_HEIGHT)
#define SEEN_COLUMNS ((BLOCK_COLUMNS - 1u) * OUTPUT_STEP_WIDTH + FILTER_WIDTH)

void main()
{
    uint group = work_group_index();
    if (group >= parameters.work_items) {
        return;
    }
    uint tiles_of_one = parameters.row_tiles * parameters.column_tiles;
    uint number = group / tiles_of_one;
    uint tile = group - number * tiles_of_one;
    uint column_tile = tile / parameters.row_tiles;
    uint row = tile - column_tile * parameters.row_tiles;
    Batch batch = batch_at(number, parameters.work_items / tiles_of_one, 0u);

    uint across = (OUTPUT_WIDTH + (BLOCK_COLUMNS - 1u)) / BLOCK_COLUMNS;
    uint down = (OUTPUT_HEIGHT + (BLOCK_ROWS - 1u)) / BLOCK_ROWS;
    uint item = column_tile * INVOCATIONS + index_in_group();
    uint line = item / across;
    uint image = line / down;
    uint first_width = (item - line * across) * BLOCK_COLUMNS;
    uint first_height = (line - image * down) * BLOCK_ROWS;
    if (image * (OUTPUT_HEIGHT * OUTPUT_WIDTH) >= parameters.columns) {
        return;
    }
    uint height = first_height * OUTPUT_STEP_HEIGHT + FIRST_HEIGHT; // of the first element that is seen: modulo 2^32, where it is padding
    uint width = first_width * OUTPUT_STEP_WIDTH + FIRST_WIDTH;
    uint left = batch.left + row * parameters.left_row;
    uint right = batch.right + image * parameters.input_image;
    float sums[BLOCK_ROWS * BLOCK_COLUMNS];
    [[unroll]] for (uint i = 0u; i < BLOCK_ROWS * BLOCK_COLUMNS; ++i) {
        sums[i] = 0.0;
    }
    uint left_lowest = NO_LOWEST;
    uint right_lowest = NO_LOWEST;
    for (uint first = 0u; first < parameters.terms; first += FILTER_PLACES) {
        float weights[FILTER_PLACES];
        [[unroll]] for (uint i = 0u; i < FILTER_PLACES; ++i) {
            uint bits = operand(LOAD(OPERAND, words_left, left + i * parameters.left_term));
            left_lowest = min(left_lowest, lowest_of(bits));
            weights[i] = uintBitsToFloat(bits);
        }
        [[unroll]] for (uint seen = 0u; seen < SEEN_ROWS; ++seen) {
            float elements[SEEN_COLUMNS];
            bool is_inside = height + seen < INPUT_HEIGHT;
            uint at = right + (height + seen) * parameters.input_height + width * parameters.input_width;
            [[unroll]] for (uint k = 0u; k < SEEN_COLUMNS; ++k) {
                uint bits = 0u;
                if (is_inside && width + k < INPUT_WIDTH) {
                    bits = operand(LOAD(OPERAND, words_right, at + k * parameters.input_width));
                }
                right_lowest = min(right_lowest, lowest_of(bits));
                elements[k] = uintBitsToFloat(bits);
            }
            [[unroll]] for (uint i = 0u; i < BLOCK_ROWS; ++i) {
                uint filter_row = seen - i * OUTPUT_STEP_HEIGHT;
                if (filter_row < FILTER_HEIGHT) {
                    [[unroll]] for (uint x = 0u; x < FILTER_WIDTH; ++x) {
                        float weight = weights[filter_row * FILTER_WIDTH + x];
                        [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                            uint sum = i * BLOCK_COLUMNS + j;
                            sums[sum] = product_plus(weight, elements[j * OUTPUT_STEP_WIDTH + x], sums[sum]);
                        }
                    }
                }
            }
        }
        left += FILTER_IS_SPLIT ? parameters.left_outer : FILTER_PLACES * parameters.left_term;
        right += parameters.input_channel;
    }
    bool plain = true;
#if LOOKS_AT_DENORMALS
    plain = has_no_denormals(left_lowest, right_lowest);
#endif
    uint word = 0u;
    // In a loop: what a result takes is long, and would be copied for each of them.
    for (uint i = 0u; i < BLOCK_ROWS * BLOCK_COLUMNS; ++i) {
        uint own_height = first_height + i / BLOCK_COLUMNS;
        uint own_width = first_width + i % BLOCK_COLUMNS;
        if (own_height < OUTPUT_HEIGHT && own_width < OUTPUT_WIDTH) {
            uint column = (image * OUTPUT_HEIGHT + own_height) * OUTPUT_WIDTH + own_width;
            uint sum = 0u;
            [[unroll]] for (uint k = 0u; k < BLOCK_ROWS * BLOCK_COLUMNS; ++k) {
                sum = i == k ? floatBitsToUint(sums[k]) : sum;
            }
            if (!plain || !is_finite(uintBitsToFloat(sum))) {
                sum = exact_sum(batch, row, column, 0u, parameters.terms);
            }
            uint result = finished(batch, sum, row, column);
#if OPERAND_BITS == 16
            if (OUTPUT_HAS_PAIRS && OUTPUT_WIDTH % 2u == 0u) {
                word = i % 2u == 0u ? result : word | result << 16u;
                if (i % 2u == 1u) {
                    words_output[output_index(batch, row, column) >> 1u] = word;
                }
            } else {
                store_result(batch, result, row, column);
            }
#else
            store_result(batch, result, row, column);
#endif
        }
    }
}
