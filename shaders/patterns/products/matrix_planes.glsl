// Convolutions of one segment whose windows move over planes by the same step by which they go through them, depthwise ones above all: forward
// cross-correlations without dilations. An invocation computes a block of BLOCK_ROWS x BLOCK_COLUMNS places of the output, whose windows overlap:
// it goes down the rows that they see, and each element is loaded and looked at once for all of them. Neighbouring invocations have neighbouring
// blocks.
//
// RIGHT_HAS_VECTORS means that rows of the input are whole fours, at multiples of four elements, and that what a block sees begins at the same
// place of a four for all; OUTPUT_HAS_PAIRS that rows of the output and of blocks are whole pairs of FLOAT16 or fours of FLOAT32.
//
// Padding is left out, which changes no bit: see matrix.glsl. The compile script passes BLOCK_ROWS, BLOCK_COLUMNS (even for FLOAT16) and INVOCATIONS.
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#include "products/matrix.glsl"

layout(local_size_x = INVOCATIONS) in;

#define FILTER_POSITIONS (FILTER_HEIGHT * FILTER_WIDTH)
#define SEEN_ROWS ((BLOCK_ROWS - 1u) * OUTPUT_STEP_HEIGHT + FILTER_HEIGHT)
#define SEEN_COLUMNS ((BLOCK_COLUMNS - 1u) * OUTPUT_STEP_WIDTH + FILTER_WIDTH)

// Results of neighbouring columns that are stored at once.
#if OPERAND_BITS == 32
#define TOGETHER 4u
#define STORE_TOGETHER(index, four) fours_output[(index) >> 2u] = four;
#else
#define TOGETHER 2u
#define STORE_TOGETHER(index, four) words_output[(index) >> 1u] = four.x | four.y << 16u;
#endif

void main() {
    WORK_GROUP(group)
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
    if (image * (OUTPUT_HEIGHT * OUTPUT_WIDTH) >= parameters.columns) { return; }
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
    for (uint first = 0u; first < parameters.terms; first += FILTER_POSITIONS) {
        float weights[FILTER_POSITIONS];
        [[unroll]] for (uint i = 0u; i < FILTER_POSITIONS; ++i) {
            uint bits = operand(LOAD(OPERAND, words_left, left + i * parameters.left_term));
            left_lowest = min(left_lowest, lowest_of(bits));
            weights[i] = uintBitsToFloat(bits);
        }
        [[unroll]] for (uint seen = 0u; seen < SEEN_ROWS; ++seen) {
            float elements[SEEN_COLUMNS];
            bool is_inside = height + seen < INPUT_HEIGHT;
            uint at = right + (height + seen) * parameters.input_height + width * parameters.input_width;
            uvec4 four = uvec4(0u);
            [[unroll]] for (uint k = 0u; k < SEEN_COLUMNS; ++k) {
                uint bits = 0u;
#if OPERAND_BITS == 32
                // Where vectors begin, in what is seen, is the same for all blocks.
                uint within = (k + FIRST_WIDTH) & 3u;
                if (RIGHT_HAS_VECTORS && k >= within && k - within + 3u < SEEN_COLUMNS) {
                    if (within == 0u) {
                        four = is_inside && width + k < INPUT_WIDTH ? fours_right[(at + k) >> 2u] : uvec4(0u);
                    }
                    bits = operand(four[within]);
                } else
#endif
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
        left += FILTER_IS_SPLIT ? parameters.left_outer : FILTER_POSITIONS * parameters.left_term;
        right += parameters.input_channel;
    }
    bool plain = true;
#if LOOKS_AT_DENORMALS
    plain = has_no_denormals(left_lowest, right_lowest);
#endif
    [[unroll]] for (uint i = 0u; i < BLOCK_ROWS * BLOCK_COLUMNS; ++i) {
        plain = plain && is_finite(sums[i]);
    }
    if (!plain) {
        // In a loop: an exact sum is long, and would be copied for each of them.
        for (uint i = 0u; i < BLOCK_ROWS * BLOCK_COLUMNS; ++i) {
            uint own_height = min(first_height + i / BLOCK_COLUMNS, OUTPUT_HEIGHT - 1u);
            uint own_width = min(first_width + i % BLOCK_COLUMNS, OUTPUT_WIDTH - 1u);
            uint column = (image * OUTPUT_HEIGHT + own_height) * OUTPUT_WIDTH + own_width;
            float sum = uintBitsToFloat(exact_sum(batch, row, column, 0u, parameters.terms));
            [[unroll]] for (uint k = 0u; k < BLOCK_ROWS * BLOCK_COLUMNS; ++k) {
                sums[k] = i == k ? sum : sums[k];
            }
        }
    }
    [[unroll]] for (uint i = 0u; i < BLOCK_ROWS; ++i) {
        uint line_of_columns = (image * OUTPUT_HEIGHT + first_height + i) * OUTPUT_WIDTH;
        uvec4 four = uvec4(0u);
        [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
            if (first_height + i < OUTPUT_HEIGHT && first_width + j < OUTPUT_WIDTH) {
                uint column = line_of_columns + first_width + j;
                uint result = finished(batch, floatBitsToUint(sums[i * BLOCK_COLUMNS + j]), row, column);
                if (OUTPUT_HAS_PAIRS) {
                    four[j % TOGETHER] = result;
                    if (j % TOGETHER == TOGETHER - 1u) {
                        STORE_TOGETHER(output_index(batch, row, column), four)
                    }
                } else {
                    store_result(batch, result, row, column);
                }
            }
        }
    }
}
