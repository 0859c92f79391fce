// The main function of a step that makes the products of the state too, for GPUs. A work group computes TILE_UNITS units of TILE_ROWS
// sequences: the products of all of their gates as matrix_single.glsl does, with the same bits, and then what becomes of the units.
// The next state does not lie where the present one does, which other work groups still read; a unit's second part, and what lies
// where its next state will, are read by its own work group only.
//
// The compile script passes what matrix_single.glsl is passed, but TILE_UNITS (a multiple of 2) instead of TILE_COLUMNS.
layout(local_size_x = INVOCATIONS) in;

#define TILE_COLUMNS (PRODUCT_GATES * TILE_UNITS)
#define CONVOLUTION 0
#define SEGMENT 1024u
#define TERMS_PER_ITERATION 8u
#define NOWHERE 0xffffffffu // of what no index here is

#define LEFT_ALONG_TERMS true
// Whether four terms lie at multiples of four elements, and whether the weights' neighbours in memory are neighbouring terms.
layout(constant_id = 2) const bool LEFT_HAS_VECTORS = false;
layout(constant_id = 3) const bool RIGHT_ALONG_TERMS = true;
layout(constant_id = 4) const bool RIGHT_HAS_VECTORS = false;

#include "products/matrix_terms.glsl"

// ---- operands ---------------------------------------------------------------------------------------------------------------

// The left one is the state: its rows are sequences. Columns of the right one are units, gate by gate.
#define words_left words_state
#define pairs_left pairs_state
#define fours_left fours_state

// Where the operands of a direction begin, and the first unit of a work group.
struct Batch {
    uint left;
    uint left_row; // elements from row to row
    uint right, first_unit;
};
struct Column {
    uint first;
};
uint left_index(Batch batch, uint at, uint term) { return batch.left + at * batch.left_row + term; }
// What lies outside of the matrix is computed with what lies at its edge, and not stored.
Column column_at(Batch batch, uint column) {
    uint unit = min(batch.first_unit + column % TILE_UNITS, parameters.hidden - 1u);
    uint gate = FIRST_GATE + column / TILE_UNITS;
    return Column(batch.right + (gate * parameters.hidden + unit) * parameters.right_unit);
}
uint right_index(Column column, uint term) { return column.first + term * parameters.right_term; }
uint left_bits(Batch batch, uint at, uint term) { return operand(LOAD(OPERAND, words_state, left_index(batch, at, term))); }
uint right_bits(Column column, uint term) { return operand(LOAD(OPERAND, words_right, right_index(column, term))); }

#include "products/matrix_exact_sum.glsl"
#include "products/matrix_fours.glsl"
#define LAST_ROW (parameters.batch - 1u)
#include "products/matrix_single_tiles.glsl"

// ---- products ---------------------------------------------------------------------------------------------------------------

// Behind the sums the tiles are words: the products of the state and of the input, by row, gate and unit of the tile, and what becomes
// of neighbouring units.
#define RESULTS (TILE_ROWS * TILE_COLUMNS)
#define TILE_WORD(number) tiles[(number) >> 2u][(number) & 3u]

uint tile_position; // of a unit's first gate, among the products
uint projection(uint gate, uint unit) { return TILE_WORD(RESULTS + tile_position + (gate - FIRST_GATE) * TILE_UNITS); }
uint recurrence(uint gate, uint unit) { return TILE_WORD(tile_position + (gate - FIRST_GATE) * TILE_UNITS); }

// ---- units ------------------------------------------------------------------------------------------------------------------

#define TILE_STATE (TILE_ROWS * TILE_UNITS)
#define ITERATIONS ((TILE_STATE + INVOCATIONS - 1) / INVOCATIONS)

void step_units(uint invocation, uint first_row, uint first_unit) {
    for (uint iteration = 0u; iteration < ITERATIONS; ++iteration) {
        uint number = iteration * INVOCATIONS + invocation;
        uint unit = first_unit + number % TILE_UNITS;
        row = first_row + number / TILE_UNITS;
        tile_position = number / TILE_UNITS * TILE_COLUMNS + number % TILE_UNITS;
        state_row = (direction * parameters.batch + row) * WORDS;
        bool is_inside = number < TILE_STATE && row < parameters.batch && unit < parameters.hidden;
        Unit next = Unit(0u, 0u);
        if (is_inside) { next = stepped(unit); }
        uint hidden = NARROW(next.hidden);
        uint second = NARROW(next.second);
#if OPERAND_BITS == 16
        TILE_WORD(2u * RESULTS + invocation) = hidden | second << 16u;
        barrier();
        uint neighbour = TILE_WORD(2u * RESULTS + (invocation | 1u));
        hidden |= neighbour << 16u;
        second |= neighbour & 0xffff0000u;
        is_inside = is_inside && unit % 2u == 0u;
        barrier(); // all have read their neighbours
#endif
        if (is_inside) { store_word(unit / UNITS_OF_WORD, hidden, second); }
    }
}

void main() {
    WORK_GROUP(group)
    uint invocation = index_in_group();
    uint row_tiles = (parameters.batch + TILE_ROWS - 1u) / TILE_ROWS;
    uint unit_tiles = (parameters.hidden + TILE_UNITS - 1u) / TILE_UNITS;
    // Work groups that run at one time shall read the same weights: downwards first.
    uint first_row = group % row_tiles * TILE_ROWS;
    uint first_unit = group / row_tiles % unit_tiles * TILE_UNITS;
    direction = parameters.first_direction + group / row_tiles / unit_tiles;
    uint left = (BASE_WORD(state) + parameters.MULTIPLIED_STATE + direction * parameters.batch * WORDS) * UNITS_OF_WORD;
    uint right = BASE(OPERAND_BITS, right) + direction * parameters.right_direction;
    Batch batch = Batch(left, WORDS * UNITS_OF_WORD, right, first_unit);
    uint own_column = invocation % TILE_COLUMNS;
    uint own_row = invocation / TILE_COLUMNS;
    uint own_unit = first_unit + own_column % TILE_UNITS;
    Column loaded_columns[RIGHT_LOADS];
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) {
        loaded_columns[i] = column_at(batch, right_position(i, invocation).x);
    }
    // The products of the input are on their way while those of the state are made.
    uint projected[RESULT_ROWS];
    [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
        row = min(first_row + i * INVOCATION_ROWS + own_row, LAST_ROW);
        projected[i] =
            words_projections[projection_index(FIRST_GATE + own_column / TILE_UNITS, min(own_unit, parameters.hidden - 1u))];
    }
    Four left_loaded[LEFT_LOADS];
    Four right_loaded[RIGHT_LOADS];
    float sums[RESULT_ROWS];
    uint totals[RESULT_ROWS];
    for (uint first = 0u; first < parameters.hidden; first += SEGMENT) {
        uint end = min(first + SEGMENT, parameters.hidden);
#include "products/matrix_single_segment.glsl"
        [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
            uint sum = floatBitsToUint(sums[i]);
            uint at = first_row + i * INVOCATION_ROWS + own_row;
            if (!(plain && is_finite(sums[i])) && at < parameters.batch && own_unit < parameters.hidden) {
                sum = exact_sum(batch, at, own_column, first, end);
            }
            totals[i] = first == 0u ? sum : sum_plus(totals[i], sum);
        }
        barrier(); // all have read the lowest
    }
    [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
        uint position = (i * INVOCATION_ROWS + own_row) * TILE_COLUMNS + own_column;
        TILE_WORD(position) = totals[i];
        TILE_WORD(RESULTS + position) = projected[i];
    }
    barrier();
    step_units(invocation, first_row, first_unit);
}
