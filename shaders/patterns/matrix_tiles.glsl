// Tiles of results, one for each work group: operands go through shared memory, TILE_TERMS terms at a time, and each invocation keeps
// RESULT_ROWS x RESULT_COLUMNS results in registers. For GPUs.
//
// The compile script passes TILE_ROWS, TILE_COLUMNS, TILE_TERMS, RESULT_ROWS and RESULT_COLUMNS (2, 4 or 8 each) and INVOCATIONS =
// (TILE_ROWS / RESULT_ROWS) * (TILE_COLUMNS / RESULT_COLUMNS). For convolutions that is a multiple of TILE_COLUMNS.
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#include "matrix.glsl"
#include "matrix_fours.glsl"
#include "matrix_groups.glsl"

layout(local_size_x = INVOCATIONS) in;

#define INVOCATION_ROWS (TILE_ROWS / RESULT_ROWS)
#define INVOCATION_COLUMNS (TILE_COLUMNS / RESULT_COLUMNS)
// Neighbouring rows and columns of an invocation, and how many fours hold what it multiplies.
#if RESULT_ROWS < 4
#define ROW_RUN RESULT_ROWS
#else
#define ROW_RUN 4
#endif
#if RESULT_COLUMNS < 4
#define COLUMN_RUN RESULT_COLUMNS
#else
#define COLUMN_RUN 4
#endif
#define ROW_FOURS ((RESULT_ROWS + 3) / 4)
#define COLUMN_FOURS ((RESULT_COLUMNS + 3) / 4)
// Fours of a line of terms; four more floats move the lines of the left tile, which is often written across, to other banks.
#define LEFT_LINE (TILE_ROWS / 4 + 1)
#define RIGHT_LINE (TILE_COLUMNS / 4)
#define RIGHT_TILE (TILE_TERMS * LEFT_LINE)
#define TILES (RIGHT_TILE + TILE_TERMS * RIGHT_LINE)

// Two tiles of each operand: one is computed with while the other is filled. Results lie here too before they are stored.
shared vec4 tiles[2 * TILES];
shared uint left_classes;
shared uint right_classes;

#define LEFT_FOURS (TILE_ROWS * TILE_TERMS / 4)
#define RIGHT_FOURS (TILE_COLUMNS * TILE_TERMS / 4)
#define LEFT_LOADS ((LEFT_FOURS + INVOCATIONS - 1) / INVOCATIONS)
#define RIGHT_LOADS ((RIGHT_FOURS + INVOCATIONS - 1) / INVOCATIONS)

#define LEFT_STEP (TILE_TERMS * parameters.left_term)
#if CONVOLUTION
#define RIGHT_STEP 0u
#else
#define RIGHT_STEP (TILE_TERMS * parameters.right_term)
#endif

// The first row and term of the four elements that an invocation loads in its i-th turn.
uvec2 left_place(uint i, uint invocation)
{
    uint number = invocation + i * INVOCATIONS;
    return LEFT_ALONG_TERMS ? uvec2(number / (TILE_TERMS / 4), number % (TILE_TERMS / 4) * 4u)
                            : uvec2(number % (TILE_ROWS / 4) * 4u, number / (TILE_ROWS / 4));
}
// The same for the first term and column.
uvec2 right_place(uint i, uint invocation)
{
    uint number = invocation + i * INVOCATIONS;
#if CONVOLUTION
    return uvec2(number / TILE_COLUMNS * 4u, number % TILE_COLUMNS);
#else
    return RIGHT_ALONG_TERMS ? uvec2(number % (TILE_TERMS / 4) * 4u, number / (TILE_TERMS / 4))
                             : uvec2(number / (TILE_COLUMNS / 4), number % (TILE_COLUMNS / 4) * 4u);
#endif
}

// Where the four elements lie that an invocation loads in its i-th turn, of the first tile of terms. What lies outside of the matrix is
// computed with what lies at its edge, and not stored.
uint left_beginning(Batch batch, uint i, uint row, uint term, uint invocation)
{
    uvec2 place = left_place(i, invocation);
    uint last = parameters.rows - (!LEFT_ALONG_TERMS && LEFT_HAS_VECTORS ? 4u : 1u);
    return left_index(batch, min(row + place.x, last), term + place.y);
}

// What an invocation loads of the left operand in its i-th turn. `is_whole`: all terms of the tile are there.
Four left_four(Batch batch, uint beginning, bool is_whole, uint i, uint row, uint term, uint end, uint invocation)
{
    uvec2 place = left_place(i, invocation);
    uvec2 at = uvec2(row + place.x, term + place.y);
    Four four = Four(uvec4(0u), 0u);
    bool is_within = LEFT_FOURS % INVOCATIONS == 0 || invocation + i * INVOCATIONS < LEFT_FOURS;
    if (is_within && (is_whole || at.y < end)) {
        if (LEFT_HAS_VECTORS) {
            return LOAD_VECTOR(left, beginning);
        }
        uint last = parameters.rows - 1u;
        uvec2 next = uvec2(LEFT_ALONG_TERMS ? 0u : 1u, LEFT_ALONG_TERMS ? 1u : 0u);
        [[unroll]] for (uint element = 0u; element < 4u; ++element) {
            if (is_whole || at.y + element * next.y < end) {
                uint index = left_index(batch, min(at.x + element * next.x, last), at.y + element * next.y);
                LOAD_ELEMENT(four, element, left, index)
            }
        }
    }
    return four;
}

// The same of the right operand. Every turn has the same column, if it is a convolution's.
#if !CONVOLUTION
uint right_beginning(Batch batch, uint i, uint column, uint term, uint invocation)
{
    uvec2 place = right_place(i, invocation);
    uint last = parameters.columns - (!RIGHT_ALONG_TERMS && RIGHT_HAS_VECTORS ? 4u : 1u);
    return batch.right + (term + place.x) * parameters.right_term + min(column + place.y, last) * parameters.right_column;
}
#endif
Four right_four(
    Batch batch, Column own, uint beginning, bool is_whole, uint i, uint column, uint term, uint end, uint invocation)
{
    uvec2 place = right_place(i, invocation);
    uvec2 at = uvec2(term + place.x, column + place.y);
    Four four = Four(uvec4(0u), 0u);
    bool is_within = RIGHT_FOURS % INVOCATIONS == 0 || invocation + i * INVOCATIONS < RIGHT_FOURS;
    if (is_within && (is_whole || at.x < end)) {
#if CONVOLUTION
        [[unroll]] for (uint element = 0u; element < 4u; ++element) {
            if (is_whole || at.x + element < end) {
                uint index = right_index(own, at.x + element);
                if (index != NOWHERE) {
                    LOAD_ELEMENT(four, element, right, index)
                }
            }
        }
#else
        if (RIGHT_HAS_VECTORS) {
            return LOAD_VECTOR(right, beginning);
        }
        uint last = parameters.columns - 1u;
        uvec2 next = uvec2(RIGHT_ALONG_TERMS ? 1u : 0u, RIGHT_ALONG_TERMS ? 0u : 1u);
        [[unroll]] for (uint element = 0u; element < 4u; ++element) {
            if (is_whole || at.x + element * next.x < end) {
                uint index = right_index(column_at(batch, min(at.y + element * next.y, last)), at.x + element * next.x);
                LOAD_ELEMENT(four, element, right, index)
            }
        }
#endif
    }
    return four;
}

// Writes what was loaded in the i-th turn into one of the two tiles of an operand.
void put_left(uint tile, uint i, uvec4 bits, uint invocation)
{
    if (LEFT_FOURS % INVOCATIONS == 0 || invocation + i * INVOCATIONS < LEFT_FOURS) {
        uvec2 place = left_place(i, invocation);
        vec4 four = uintBitsToFloat(bits);
        uint at = tile * TILES + place.y * LEFT_LINE + place.x / 4u;
        if (LEFT_ALONG_TERMS) {
            tiles[at][place.x & 3u] = four.x;
            tiles[at + LEFT_LINE][place.x & 3u] = four.y;
            tiles[at + 2u * LEFT_LINE][place.x & 3u] = four.z;
            tiles[at + 3u * LEFT_LINE][place.x & 3u] = four.w;
        } else {
            tiles[at] = four;
        }
    }
}
void put_right(uint tile, uint i, uvec4 bits, uint invocation)
{
    if (RIGHT_FOURS % INVOCATIONS == 0 || invocation + i * INVOCATIONS < RIGHT_FOURS) {
        uvec2 place = right_place(i, invocation);
        vec4 four = uintBitsToFloat(bits);
        uint at = tile * TILES + RIGHT_TILE + place.x * RIGHT_LINE + place.y / 4u;
        if (CONVOLUTION == 1 || RIGHT_ALONG_TERMS) {
            tiles[at][place.y & 3u] = four.x;
            tiles[at + RIGHT_LINE][place.y & 3u] = four.y;
            tiles[at + 2u * RIGHT_LINE][place.y & 3u] = four.z;
            tiles[at + 3u * RIGHT_LINE][place.y & 3u] = four.w;
        } else {
            tiles[at] = four;
        }
    }
}

// What follows stands in main() as it is: arrays that functions share are kept in memory by some drivers.
#define LOAD_TILES(term) \
    { \
        bool is_whole = (term) + TILE_TERMS <= end; \
        [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
            left_loaded[i] = left_four(batch, left_next[i], is_whole, i, first_row, term, end, invocation); \
            left_next[i] += LEFT_STEP; \
        } \
        [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
            right_loaded[i] = right_four(batch, own, right_next[i], is_whole, i, first_column, term, end, invocation); \
            right_next[i] += RIGHT_STEP; \
        } \
    }

#define PUT_TILES(tile) \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        uvec4 bits = operands_of(left_loaded[i], LEFT_HAS_VECTORS); \
        own_left_classes |= classes_of(bits); \
        put_left(tile, i, bits, invocation); \
    } \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        uvec4 bits = operands_of(right_loaded[i], CONVOLUTION == 0 && RIGHT_HAS_VECTORS); \
        own_right_classes |= classes_of(bits); \
        put_right(tile, i, bits, invocation); \
    }

#define ADD_PRODUCTS(tile) \
    [[unroll]] for (uint step = 0u; step < TILE_TERMS; ++step) { \
        vec4 a[ROW_FOURS]; \
        vec4 b[COLUMN_FOURS]; \
        [[unroll]] for (uint i = 0u; i < ROW_FOURS; ++i) { \
            a[i] = tiles[tile * TILES + step * LEFT_LINE + i * INVOCATION_ROWS + own_row / (4 / ROW_RUN)]; \
        } \
        [[unroll]] for (uint i = 0u; i < COLUMN_FOURS; ++i) { \
            b[i] = tiles[tile * TILES + RIGHT_TILE + step * RIGHT_LINE + i * INVOCATION_COLUMNS + own_column / (4 / COLUMN_RUN)]; \
        } \
        if (ROW_RUN == 2 && (own_row & 1u) != 0u) { \
            a[0].xy = a[0].zw; \
        } \
        if (COLUMN_RUN == 2 && (own_column & 1u) != 0u) { \
            b[0].xy = b[0].zw; \
        } \
        [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) { \
            [[unroll]] for (uint j = 0u; j < RESULT_COLUMNS; ++j) { \
                sums[i * RESULT_COLUMNS + j] = product_plus(a[i / 4u][i & 3u], b[j / 4u][j & 3u], sums[i * RESULT_COLUMNS + j]); \
            } \
        } \
    }

// A segment's sums leave the registers through shared memory, RESULTS / TILE_ROWS of the tile at a time, so that neighbouring
// invocations store neighbouring results. This is what is done with such a part.
#define ROUND_RESULTS (INVOCATION_ROWS * TILE_COLUMNS)
#define AT_ONCE (32 / OPERAND_BITS)
void deliver(Batch batch, bool plain, uint turn, uint first_row, uint first_column, uint segment, uint end, uint invocation)
{
    for (uint number = invocation; number < ROUND_RESULTS / AT_ONCE; number += INVOCATIONS) {
        uint tile_row = number / (TILE_COLUMNS / AT_ONCE);
        uint row = first_row + turn / ROW_RUN * (INVOCATION_ROWS * ROW_RUN) + tile_row * ROW_RUN + turn % ROW_RUN;
        uint word = 0u;
        for (uint part = 0u; part < AT_ONCE; ++part) {
            uint tile_column = number % (TILE_COLUMNS / AT_ONCE) * AT_ONCE + part;
            uint column = first_column + tile_column;
            if (row < parameters.rows && column < parameters.columns) {
                uint sum = plain
                    ? floatBitsToUint(tiles[tile_row * RIGHT_LINE + tile_column / 4u][tile_column & 3u])
                    : exact_sum(batch, row, column, segment * SEGMENT, end);
                if (is_complete(batch, sum, row, column, segment)) {
                    uint result = finished(batch, sum, row, column);
#if OPERAND_BITS == 16
                    if (OUTPUT_HAS_PAIRS) {
                        word |= result << (part * 16u);
                        if (part == 1u) {
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
    }
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
    uint first_row = place.first_row;
    uint first_column = place.first_column;
    Column own = column_at(batch, min(first_column + invocation % TILE_COLUMNS, parameters.columns - 1u));
    uint own_row = invocation / INVOCATION_COLUMNS;
    uint own_column = invocation % INVOCATION_COLUMNS;
    Four left_loaded[LEFT_LOADS];
    Four right_loaded[RIGHT_LOADS];
    uint left_next[LEFT_LOADS];
    uint right_next[RIGHT_LOADS];
    float sums[RESULT_ROWS * RESULT_COLUMNS];
    for (uint segment = place.first_segment; segment < place.end_segment; ++segment) {
        uint first = segment * SEGMENT;
        uint end = min(first + SEGMENT, parameters.terms);
        if (invocation == 0u) {
            left_classes = 0u;
            right_classes = 0u;
        }
        [[unroll]] for (uint i = 0u; i < RESULT_ROWS * RESULT_COLUMNS; ++i) {
            sums[i] = 0.0;
        }
        [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) {
            left_next[i] = left_beginning(batch, i, first_row, first, invocation);
        }
        [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) {
#if CONVOLUTION
            right_next[i] = 0u;
#else
            right_next[i] = right_beginning(batch, i, first_column, first, invocation);
#endif
        }
        uint own_left_classes = 0u;
        uint own_right_classes = 0u;
        LOAD_TILES(first)
        PUT_TILES(0u)
        barrier();
        uint tile = 0u;
        for (uint term = first; term < end; term += TILE_TERMS) {
            bool has_next = term + TILE_TERMS < end;
            if (has_next) {
                LOAD_TILES(term + TILE_TERMS)
            }
            ADD_PRODUCTS(tile)
            tile = 1u - tile;
            if (has_next) {
                PUT_TILES(tile)
            }
            barrier();
        }
        atomicOr(left_classes, own_left_classes);
        atomicOr(right_classes, own_right_classes);
        barrier();
        bool plain = is_plain(left_classes, right_classes);
        for (uint turn = 0u; turn < RESULT_ROWS; ++turn) {
            [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
                if (turn == i) {
#if COLUMN_RUN == 2
                    uint at = own_row * RIGHT_LINE + own_column / 2u;
                    tiles[at][own_column % 2u * 2u] = sums[i * 2u];
                    tiles[at][own_column % 2u * 2u + 1u] = sums[i * 2u + 1u];
#else
                    [[unroll]] for (uint four = 0u; four < COLUMN_FOURS; ++four) {
                        uint sum = i * RESULT_COLUMNS + 4u * four;
                        tiles[own_row * RIGHT_LINE + four * INVOCATION_COLUMNS + own_column] =
                            vec4(sums[sum], sums[sum + 1u], sums[sum + 2u], sums[sum + 3u]);
                    }
#endif
                }
            }
            barrier();
            deliver(batch, plain, turn, first_row, first_column, segment, end, invocation);
            barrier();
        }
    }
}
