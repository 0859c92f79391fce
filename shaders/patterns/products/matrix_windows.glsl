// Convolutions of one segment, in which operands are used too rarely to go through shared memory (depthwise ones above all). Each
// invocation goes through the windows of BLOCK_COLUMNS results itself; neighbouring invocations compute neighbouring columns.
//
// Padding is left out, which changes no bit: see matrix.glsl. The compile script passes BLOCK_COLUMNS and INVOCATIONS.
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#include "products/matrix.glsl"

layout(local_size_x = INVOCATIONS) in;

#define AT_ONCE (32 / OPERAND_BITS) // neighbouring columns of an invocation, which share a word

void main() {
    WORK_GROUP(group)
    uint tiles_of_one = parameters.row_tiles * parameters.column_tiles;
    uint number = group / tiles_of_one;
    uint tile_number = group - number * tiles_of_one;
    uint column_tile = tile_number / parameters.row_tiles;
    uint row = tile_number - column_tile * parameters.row_tiles;
    uint own_column = column_tile * (BLOCK_COLUMNS * INVOCATIONS) + index_in_group() * AT_ONCE;
    Batch batch = batch_at(number, parameters.work_items / tiles_of_one, 0u);

    // What lies outside is computed with what lies at the edge, and not stored.
    Column columns[BLOCK_COLUMNS];
    float sums[BLOCK_COLUMNS];
    uint right_classes[BLOCK_COLUMNS];
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
        uint column = own_column + j / AT_ONCE * (AT_ONCE * INVOCATIONS) + j % AT_ONCE;
        columns[j] = column_at(batch, min(column, parameters.columns - 1u));
        sums[j] = 0.0;
        right_classes[j] = 0u;
    }
    uint left_classes = 0u;
    uint left_plane = batch.left + row * parameters.left_row;
    uint filter_positions = FILTER_DEPTH * FILTER_HEIGHT * FILTER_WIDTH;
    uint left_channel = FILTER_IS_SPLIT ? parameters.left_outer : filter_positions * parameters.left_term;
    uint right_channel = 0u;
    for (uint first = 0u; first < parameters.terms; first += filter_positions) {
        uint left = left_plane;
        for (uint z = 0u; z < FILTER_DEPTH; ++z) {
            for (uint y = 0u; y < FILTER_HEIGHT; ++y) {
                for (uint x = 0u; x < FILTER_WIDTH; ++x) {
                    uint a = operand(LOAD(OPERAND, words_left, left));
                    left += parameters.left_term;
                    left_classes |= class_of(a);
                    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                        uvec3 position = uvec3(columns[j].depth + z * FILTER_STEP_DEPTH, columns[j].height + y * FILTER_STEP_HEIGHT,
                            columns[j].width + x * FILTER_STEP_WIDTH);
                        if (is_element(position)) {
                            uint b = operand(LOAD(OPERAND, words_right, element_index(columns[j], right_channel, position)));
                            right_classes[j] |= class_of(b);
                            sums[j] = product_plus(uintBitsToFloat(a), uintBitsToFloat(b), sums[j]);
                        }
                    }
                }
            }
        }
        left_plane += left_channel;
        right_channel += parameters.input_channel;
    }
    uint word = 0u;
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
        uint column = own_column + j / AT_ONCE * (AT_ONCE * INVOCATIONS) + j % AT_ONCE;
        if (column < parameters.columns) {
            bool plain = is_plain(left_classes, right_classes[j]);
            uint sum = plain ? floatBitsToUint(sums[j]) : exact_sum(batch, row, column, 0u, parameters.terms);
            uint result = finished(batch, sum, row, column);
#if OPERAND_BITS == 16
            if (OUTPUT_HAS_PAIRS) {
                word = j % AT_ONCE == 0u ? result : word | result << 16u;
                if (j % AT_ONCE == 1u) { words_output[output_index(batch, row, column) >> 1u] = word; }
            } else {
                store_result(batch, result, row, column);
            }
#else
            store_result(batch, result, row, column);
#endif
        }
    }
}
