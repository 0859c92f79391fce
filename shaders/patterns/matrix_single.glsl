// As matrix_tiles.glsl, but each invocation has RESULT_ROWS results of one column only: for so few results that what counts is how
// soon an invocation is through its terms, and not how often an operand is read. Terms are neighbours in shared memory, four to a word.
//
// The compile script passes TILE_ROWS, TILE_COLUMNS (a multiple of 32), TILE_TERMS, RESULT_ROWS and
// INVOCATIONS = TILE_ROWS * TILE_COLUMNS / RESULT_ROWS.
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#include "matrix.glsl"
#include "matrix_fours.glsl"
#include "matrix_groups.glsl"

layout(local_size_x = INVOCATIONS) in;

#define INVOCATION_ROWS (TILE_ROWS / RESULT_ROWS)
#define FOURS (TILE_TERMS / 4)
#define LINE (FOURS + 1) // neighbouring columns' fours lie in other banks
#define TILE ((TILE_ROWS + TILE_COLUMNS) * LINE)
#define LEFT_FOURS (TILE_ROWS * FOURS)
#define RIGHT_FOURS (TILE_COLUMNS * FOURS)
#define LEFT_LOADS ((LEFT_FOURS + INVOCATIONS - 1) / INVOCATIONS)
#define RIGHT_LOADS ((RIGHT_FOURS + INVOCATIONS - 1) / INVOCATIONS)

// Two tiles of each operand, the left one's rows first: one is computed with while the other is filled.
// (FLOAT16 results lie here too before they are stored in pairs.)
shared uvec4 tiles[2 * TILE];
#if LOOKS_AT_DENORMALS
shared uint left_lowest;
shared uint right_lowest;
#endif

// The row and the first term of the four elements that an invocation loads in its i-th turn; the last invocations begin, as the first
// ones have the right operand's.
uvec2 left_place(uint i, uint invocation)
{
    uint number = INVOCATIONS - 1u - invocation + i * INVOCATIONS;
    return LEFT_ALONG_TERMS ? uvec2(number / FOURS, number % FOURS * 4u) : uvec2(number % TILE_ROWS, number / TILE_ROWS * 4u);
}
uvec2 right_place(uint i, uint invocation)
{
    uint number = invocation + i * INVOCATIONS;
    bool along_terms = CONVOLUTION == 0 && RIGHT_ALONG_TERMS;
    return along_terms ? uvec2(number / FOURS, number % FOURS * 4u) : uvec2(number % TILE_COLUMNS, number / TILE_COLUMNS * 4u);
}

#define LEFT_IS_VECTOR (LEFT_ALONG_TERMS && LEFT_HAS_VECTORS)
#define RIGHT_IS_VECTOR (CONVOLUTION == 0 && RIGHT_ALONG_TERMS && RIGHT_HAS_VECTORS)

// What lies outside of the matrix is computed with what lies at its edge, and not stored. Terms behind the end are padding.
Four left_four(Batch batch, uint row, uint term, uint end)
{
    row = min(row, parameters.rows - 1u);
    Four four = Four(uvec4(0u), 0u);
    if (LEFT_IS_VECTOR) {
        if (term < end) {
            four = LOAD_VECTOR(left, left_index(batch, row, term));
        }
        return four;
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        if (term + i < end) {
            uint index = left_index(batch, row, term + i);
            LOAD_ELEMENT(four, i, left, index)
        }
    }
    return four;
}
Four right_four(Column column, uint term, uint end)
{
    Four four = Four(uvec4(0u), 0u);
    if (RIGHT_IS_VECTOR) {
        if (term < end) {
            four = LOAD_VECTOR(right, right_index(column, term));
        }
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

// What follows stands in main() as it is: arrays that functions share are kept in memory by some drivers.
#define LOAD_TILES(term) \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        if (invocation + i * INVOCATIONS < RIGHT_FOURS) { \
            right_loaded[i] = right_four(loaded_columns[i], (term) + right_place(i, invocation).y, end); \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        if (INVOCATIONS - 1u - invocation + i * INVOCATIONS < LEFT_FOURS) { \
            uvec2 at = left_place(i, invocation); \
            left_loaded[i] = left_four(batch, place.first_row + at.x, (term) + at.y, end); \
        } \
    }

#define PUT_TILES(tile) \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        if (invocation + i * INVOCATIONS < RIGHT_FOURS) { \
            uvec2 at = right_place(i, invocation); \
            uvec4 bits = operands_of(right_loaded[i], RIGHT_IS_VECTOR); \
            LOOK_AT(own_right_lowest, bits) \
            tiles[(tile) * TILE + (TILE_ROWS + at.x) * LINE + at.y / 4u] = bits; \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        if (INVOCATIONS - 1u - invocation + i * INVOCATIONS < LEFT_FOURS) { \
            uvec2 at = left_place(i, invocation); \
            uvec4 bits = operands_of(left_loaded[i], LEFT_IS_VECTOR); \
            LOOK_AT(own_left_lowest, bits) \
            tiles[(tile) * TILE + at.x * LINE + at.y / 4u] = bits; \
        } \
    }

void main()
{
    uint group = work_group_index();
    if (group >= parameters.work_items) {
        return;
    }
    uint invocation = index_in_group();
    Place place = place_of(group);
    Batch batch = place.batch;
    uint own_column = invocation % TILE_COLUMNS;
    uint own_row = invocation / TILE_COLUMNS;
    Column loaded_columns[RIGHT_LOADS];
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) {
        loaded_columns[i] =
            column_at(batch, min(place.first_column + right_place(i, invocation).x, parameters.columns - 1u));
    }
    Four left_loaded[LEFT_LOADS];
    Four right_loaded[RIGHT_LOADS];
    float sums[RESULT_ROWS];
    for (uint segment = place.first_segment; segment < place.end_segment; ++segment) {
        uint first = segment * SEGMENT;
        uint end = min(first + SEGMENT, parameters.terms);
#if LOOKS_AT_DENORMALS
        uint own_left_lowest = NO_LOWEST;
        uint own_right_lowest = NO_LOWEST;
        if (invocation == 0u) {
            left_lowest = NO_LOWEST;
            right_lowest = NO_LOWEST;
        }
#endif
        [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
            sums[i] = 0.0;
        }
        LOAD_TILES(first)
        PUT_TILES(0u)
        barrier();
        uint tile = 0u;
        for (uint term = first; term < end; term += TILE_TERMS) {
            bool has_next = term + TILE_TERMS < end;
            if (has_next) {
                LOAD_TILES(term + TILE_TERMS)
            }
            [[unroll]] for (uint four = 0u; four < FOURS; ++four) {
                vec4 b = uintBitsToFloat(tiles[tile * TILE + (TILE_ROWS + own_column) * LINE + four]);
                [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
                    vec4 a = uintBitsToFloat(tiles[tile * TILE + (i * INVOCATION_ROWS + own_row) * LINE + four]);
                    [[unroll]] for (uint step = 0u; step < 4u; ++step) {
                        sums[i] = product_plus(a[step], b[step], sums[i]);
                    }
                }
            }
            tile = 1u - tile;
            if (has_next) {
                PUT_TILES(tile)
            }
            barrier();
        }
        bool plain = true;
#if LOOKS_AT_DENORMALS
        atomicMin(left_lowest, own_left_lowest);
        atomicMin(right_lowest, own_right_lowest);
        barrier();
        plain = has_no_denormals(left_lowest, right_lowest);
#endif
        uint column = place.first_column + own_column;
        [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
            uint row = place.first_row + i * INVOCATION_ROWS + own_row;
            bool is_inside = row < parameters.rows && column < parameters.columns;
            bool is_result = false;
            uint result = 0u;
            if (is_inside) {
                uint sum = plain && is_finite(sums[i]) ? floatBitsToUint(sums[i]) : exact_sum(batch, row, column, first, end);
                is_result = is_complete(batch, sum, row, column, segment);
                if (is_result) {
                    result = finished(batch, sum, row, column);
                }
            }
#if OPERAND_BITS == 16
            if (OUTPUT_HAS_PAIRS) {
                tiles[invocation / 4u][invocation % 4u] = result;
                barrier();
                if (is_result && invocation % 2u == 0u) {
                    uint next = tiles[invocation / 4u][invocation % 4u + 1u];
                    words_output[output_index(batch, row, column) >> 1u] = result | next << 16u;
                }
                barrier();
                is_result = false;
            }
#endif
            if (is_result) {
                store_result(batch, result, row, column);
            }
        }
        barrier(); // all have read the lowest
    }
}
