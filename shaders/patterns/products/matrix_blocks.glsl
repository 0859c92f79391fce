// Blocks of results, one for each invocation, without shared memory: for processors, where invocations that wait for each other are put
// aside with all that they hold. Neighbouring invocations compute neighbouring columns.
//
// The compile script passes BLOCK_ROWS, BLOCK_COLUMNS and INVOCATIONS.
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#include "products/matrix.glsl"
#include "products/matrix_block_position.glsl"

layout(local_size_x = INVOCATIONS) in;

void main() {
    WORK_GROUP(group)
    Block block = block_of(group);
    Batch batch = block.batch;

    // What lies outside is computed with what lies at the edge, and not stored.
    Column columns[BLOCK_COLUMNS];
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
        columns[j] = column_at(batch, min(block.own_column + j * INVOCATIONS, parameters.columns - 1u));
    }
    uint rows[BLOCK_ROWS];
    [[unroll]] for (uint i = 0u; i < BLOCK_ROWS; ++i) {
        rows[i] = min(block.first_row + i, parameters.rows - 1u);
    }
    for (uint segment = block.first_segment; segment < block.end_segment; ++segment) {
        uint first = segment * SEGMENT;
        uint end = min(first + SEGMENT, parameters.terms);
        float sums[BLOCK_ROWS * BLOCK_COLUMNS];
        [[unroll]] for (uint i = 0u; i < BLOCK_ROWS * BLOCK_COLUMNS; ++i) {
            sums[i] = 0.0;
        }
        uint left_classes = 0u;
        uint right_classes = 0u;
        for (uint term = first; term < end; ++term) {
            float b[BLOCK_COLUMNS];
            [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                uint bits = right_bits(columns[j], term);
                right_classes |= class_of(bits);
                b[j] = uintBitsToFloat(bits);
            }
            [[unroll]] for (uint i = 0u; i < BLOCK_ROWS; ++i) {
                uint bits = left_bits(batch, rows[i], term);
                left_classes |= class_of(bits);
                [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                    sums[i * BLOCK_COLUMNS + j] = product_plus(uintBitsToFloat(bits), b[j], sums[i * BLOCK_COLUMNS + j]);
                }
            }
        }
        bool plain = is_plain(left_classes, right_classes);
        float indexed_sums[BLOCK_ROWS * BLOCK_COLUMNS]; // indexed by a variable: `sums` stay in registers
        [[unroll]] for (uint i = 0u; i < BLOCK_ROWS * BLOCK_COLUMNS; ++i) {
            indexed_sums[i] = sums[i];
        }
        for (uint i = 0u; i < BLOCK_ROWS * BLOCK_COLUMNS; ++i) {
            uint row = block.first_row + i / BLOCK_COLUMNS;
            uint column = block.own_column + i % BLOCK_COLUMNS * INVOCATIONS;
            if (row < parameters.rows && column < parameters.columns) {
                uint sum = plain ? floatBitsToUint(indexed_sums[i]) : exact_sum(batch, row, column, first, end);
                if (is_complete(batch, sum, row, column, segment)) {
                    store_result(batch, finished(batch, sum, row, column), row, column);
                }
            }
        }
    }
}
