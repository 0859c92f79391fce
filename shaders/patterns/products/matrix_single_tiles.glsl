// What tiles of matrix_single.glsl are loaded by and kept in, and where each invocation's part of them lies. matrix_fours.glsl stands
// before this, and what it says of operands: left_index, right_index, Batch and Column. The file defines LAST_ROW, the last one of the
// left operand, and what matrix_single.glsl is passed.

#define INVOCATION_ROWS (TILE_ROWS / RESULT_ROWS)
#define FOURS (TILE_TERMS / 4)
#define LINE (FOURS + 1) // neighbouring columns' fours lie in other banks
#define TILE ((TILE_ROWS + TILE_COLUMNS) * LINE)
#define LEFT_FOURS (TILE_ROWS * FOURS)
#define RIGHT_FOURS (TILE_COLUMNS * FOURS)
#define LEFT_LOADS ((LEFT_FOURS + INVOCATIONS - 1) / INVOCATIONS)
#define RIGHT_LOADS ((RIGHT_FOURS + INVOCATIONS - 1) / INVOCATIONS)

// Two tiles of each operand, the left one's rows first: one is computed with while the other is filled.
// (What becomes of sums may lie here too behind them.)
shared uvec4 tiles[2 * TILE];
#if LOOKS_AT_DENORMALS
shared uint left_lowest, right_lowest;
#endif

// The row and the first term of the four elements that an invocation loads in its i-th iteration; the last invocations begin, as the first
// ones have the right operand's.
uvec2 left_position(uint i, uint invocation) {
    uint number = INVOCATIONS - 1u - invocation + i * INVOCATIONS;
    return LEFT_ALONG_TERMS ? uvec2(number / FOURS, number % FOURS * 4u) : uvec2(number % TILE_ROWS, number / TILE_ROWS * 4u);
}
uvec2 right_position(uint i, uint invocation) {
    uint number = invocation + i * INVOCATIONS;
    bool along_terms = CONVOLUTION == 0 && RIGHT_ALONG_TERMS;
    return along_terms ? uvec2(number / FOURS, number % FOURS * 4u) : uvec2(number % TILE_COLUMNS, number / TILE_COLUMNS * 4u);
}

#define RIGHT_IS_VECTOR (CONVOLUTION == 0 && RIGHT_ALONG_TERMS && RIGHT_HAS_VECTORS)

#include "products/matrix_left_four.glsl"

// Terms behind the end are padding.
Four right_four(Column column, uint term, uint end) {
    Four four = Four(uvec4(0u), 0u);
    if (RIGHT_IS_VECTOR) {
        if (term < end) { four = LOAD_VECTOR(right, right_index(column, term)); }
        return four;
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint index = term + i < end ? right_index(column, term + i) : NOWHERE;
        if (index != NOWHERE) {
            LOAD_ELEMENT(four, i, right, index)
        }
    }
    return four;
}

// What lies outside of the matrix is computed with what lies at its edge, and not stored.
//
// What follows stands in main() as it is: arrays that functions share are kept in memory by some drivers.
#define LOAD_TILES(term) \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        if (invocation + i * INVOCATIONS < RIGHT_FOURS) { \
            right_loaded[i] = right_four(loaded_columns[i], (term) + right_position(i, invocation).y, end); \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        if (INVOCATIONS - 1u - invocation + i * INVOCATIONS < LEFT_FOURS) { \
            uvec2 at = left_position(i, invocation); \
            left_loaded[i] = left_four(batch, min(first_row + at.x, LAST_ROW), (term) + at.y, end); \
        } \
    }

#define PUT_TILES(tile) \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        if (invocation + i * INVOCATIONS < RIGHT_FOURS) { \
            uvec2 at = right_position(i, invocation); \
            uvec4 bits = operands_of(right_loaded[i], RIGHT_IS_VECTOR); \
            LOOK_AT(own_right_lowest, bits) \
            tiles[(tile) * TILE + (TILE_ROWS + at.x) * LINE + at.y / 4u] = bits; \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        if (INVOCATIONS - 1u - invocation + i * INVOCATIONS < LEFT_FOURS) { \
            uvec2 at = left_position(i, invocation); \
            uvec4 bits = operands_of(left_loaded[i], LEFT_IS_VECTOR); \
            LOOK_AT(own_left_lowest, bits) \
            tiles[(tile) * TILE + at.x * LINE + at.y / 4u] = bits; \
        } \
    }
