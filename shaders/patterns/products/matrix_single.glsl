// As matrix_tiles.glsl, but each invocation has RESULT_ROWS results of one column only: for so few results that what counts is how
// soon an invocation is through its terms, and not how often an operand is read. Terms are neighbours in shared memory, four to a word.
//
// The compile script passes TILE_ROWS, TILE_COLUMNS (a multiple of 32), TILE_TERMS, RESULT_ROWS and
// INVOCATIONS = TILE_ROWS * TILE_COLUMNS / RESULT_ROWS.
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#include "products/matrix.glsl"
#include "products/matrix_fours.glsl"
#include "products/matrix_groups.glsl"

layout(local_size_x = INVOCATIONS) in;

#define LAST_ROW (parameters.rows - 1u)
#include "products/matrix_single_tiles.glsl"

#define EXCHANGED(number) tiles[(number) / 4u][(number) % 4u]

void main() {
    WORK_GROUP(group)
    uint invocation = index_in_group();
    Position position = position_of(group);
    Batch batch = position.batch;
    uint first_row = position.first_row;
    uint own_column = invocation % TILE_COLUMNS;
    uint own_row = invocation / TILE_COLUMNS;
    Column loaded_columns[RIGHT_LOADS];
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) {
        loaded_columns[i] =
            column_at(batch, min(position.first_column + right_position(i, invocation).x, parameters.columns - 1u));
    }
    Four left_loaded[LEFT_LOADS];
    Four right_loaded[RIGHT_LOADS];
    float sums[RESULT_ROWS];
    for (uint segment = position.first_segment; segment < position.end_segment; ++segment) {
        uint first = segment * SEGMENT;
        uint end = min(first + SEGMENT, parameters.terms);
#include "products/matrix_single_segment.glsl"
        uint column = position.first_column + own_column;
        [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
            uint row = first_row + i * INVOCATION_ROWS + own_row;
            bool is_inside = row < parameters.rows && column < parameters.columns;
            float sum = sums[i];
#include "products/matrix_own_result.glsl"
        }
        barrier(); // all have read the lowest
    }
}
