// Tiles of results, one for each work group: operands go through shared memory, TILE_TERMS terms at a time, and each invocation keeps
// RESULT_ROWS x RESULT_COLUMNS results in registers. For GPUs.
//
// What is loaded for the next terms waits in registers until the present ones have been computed with. There is one tile of each operand,
// or, with TWO_TILES, two that take turns: then there is one barrier for TILE_TERMS terms, not two. That is for tiles whose products and
// additions are one instruction; others have less to compute between barriers for what they read, and more work groups beside one another.
//
// The compile script passes TILE_ROWS, TILE_COLUMNS, TILE_TERMS, RESULT_ROWS and RESULT_COLUMNS (4 or 8 each) and INVOCATIONS =
// (TILE_ROWS / RESULT_ROWS) * (TILE_COLUMNS / RESULT_COLUMNS). For convolutions that is a multiple of TILE_COLUMNS, and
// TILE_TERMS * TILE_COLUMNS / 4 a multiple of it.
//
// With READS_REST a tile is computed of which exact_tiles.glsl has left more than MOST_APART results, and no other.
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#include "products/matrix.glsl"
#include "products/matrix_fours.glsl"
#include "products/matrix_groups.glsl"
#ifdef READS_REST
#include "products/exact_marks.glsl"
#endif

layout(local_size_x = INVOCATIONS) in;

#define INVOCATION_ROWS (TILE_ROWS / RESULT_ROWS)
#define INVOCATION_COLUMNS (TILE_COLUMNS / RESULT_COLUMNS)
// How many fours hold what an invocation multiplies.
#define ROW_FOURS (RESULT_ROWS / 4)
#define COLUMN_FOURS (RESULT_COLUMNS / 4)
// Fours of a line, which holds what there is of a term. More floats move those to other banks that are often written across: four behind
// each line of the left tile, or eight behind each four lines of both.
#define RIGHT_LINE (TILE_COLUMNS / 4)
#ifdef TWO_TILES
#define LEFT_LINE (TILE_ROWS / 4)
#define BEHIND_LINES(terms) ((terms) / 4u * 2u)
#else
#define LEFT_LINE (TILE_ROWS / 4 + 1)
#define BEHIND_LINES(terms) 0u
#endif
#define LEFT_AT(term) ((term) * LEFT_LINE + BEHIND_LINES(term))
#define RIGHT_TILE LEFT_AT(TILE_TERMS)
#define RIGHT_AT(term) (RIGHT_TILE + (term) * RIGHT_LINE + BEHIND_LINES(term))
#define BOTH_TILES RIGHT_AT(TILE_TERMS)

// Results lie here too before they are stored.
#ifdef TWO_TILES
shared vec4 tiles[2u * BOTH_TILES];
#else
shared vec4 tiles[BOTH_TILES];
#endif
#if LOOKS_AT_DENORMALS
shared uint left_lowest, right_lowest;
#endif
#if CONVOLUTION
// Of the terms that are loaded next: computed once, and not by each of the columns.
shared uvec4 term_positions[TILE_TERMS];
#endif

// Whether there are as many terms as tiles have: then all are there whenever a tile is loaded.
#if CONVOLUTION
layout(constant_id = 39) const bool TERMS_FILL_TILES = false;
#else
layout(constant_id = 12) const bool TERMS_FILL_TILES = false;
#endif

// Then the last terms are loaded once more behind themselves: drivers wait at a branch's end for what is loaded in it.
#ifdef TWO_TILES
#define LOADS_WITHOUT_BRANCH TERMS_FILL_TILES
#else
#define LOADS_WITHOUT_BRANCH false
#endif

#define LEFT_FOURS (TILE_ROWS * TILE_TERMS / 4)
#define RIGHT_FOURS (TILE_COLUMNS * TILE_TERMS / 4)
#define LEFT_LOADS ((LEFT_FOURS + INVOCATIONS - 1) / INVOCATIONS)
#define RIGHT_LOADS ((RIGHT_FOURS + INVOCATIONS - 1) / INVOCATIONS)

// Whether an invocation loads columns that are neighbours, and not terms. Of a convolution, whose RIGHT_HAS_VECTORS means that windows
// have one place each, and that columns 4n to 4n + 3 lie behind one another, at multiples of four elements: that is a product as GEMM's.
#if CONVOLUTION
#define RIGHT_IS_ACROSS RIGHT_HAS_VECTORS
#else
#define RIGHT_IS_ACROSS (!RIGHT_ALONG_TERMS)
#endif

// The first row and term of the four elements that an invocation loads in its i-th iteration.
uvec2 left_position(uint i, uint invocation) {
    uint number = invocation + i * INVOCATIONS;
    return LEFT_ALONG_TERMS ? uvec2(number / (TILE_TERMS / 4), number % (TILE_TERMS / 4) * 4u)
                            : uvec2(number % (TILE_ROWS / 4) * 4u, number / (TILE_ROWS / 4));
}
// The same for the first term and column.
uvec2 right_position(uint i, uint invocation) {
    uint number = invocation + i * INVOCATIONS;
    if (RIGHT_IS_ACROSS) { return uvec2(number / (TILE_COLUMNS / 4), number % (TILE_COLUMNS / 4) * 4u); }
#if CONVOLUTION
    return uvec2(number / TILE_COLUMNS * 4u, number % TILE_COLUMNS);
#else
    return uvec2(number % (TILE_TERMS / 4) * 4u, number / (TILE_TERMS / 4));
#endif
}
bool is_left_four(uint i, uint invocation) { return LEFT_FOURS % INVOCATIONS == 0 || invocation + i * INVOCATIONS < LEFT_FOURS; }
bool is_right_four(uint i, uint invocation) {
    return RIGHT_FOURS % INVOCATIONS == 0 || invocation + i * INVOCATIONS < RIGHT_FOURS;
}

// Where the four elements lie that an invocation loads in its i-th iteration, of the first tile of terms. What lies outside of the matrix
// is computed with what lies at its edge, and not stored.
uint left_beginning(Batch batch, uint i, uint row, uint term, uint invocation) {
    uvec2 position = left_position(i, invocation);
    uint last = parameters.rows - (!LEFT_ALONG_TERMS && LEFT_HAS_VECTORS ? 4u : 1u);
    return left_index(batch, min(row + position.x, last), term + position.y);
}

// What an invocation loads of the left operand in its i-th iteration. `is_whole`: all terms of the tile are there.
Four left_four(Batch batch, uint beginning, bool is_whole, uint i, uint row, uint term, uint end, uint invocation) {
    uvec2 position = left_position(i, invocation);
    uvec2 at = uvec2(row + position.x, term + position.y);
    Four four = Four(uvec4(0u), 0u);
    if (!is_left_four(i, invocation) || !(is_whole || at.y < end)) { return four; }
    if (LEFT_HAS_VECTORS) { return LOAD_VECTOR(left, beginning); }
    uint last = parameters.rows - 1u;
    uvec2 next = uvec2(LEFT_ALONG_TERMS ? 0u : 1u, LEFT_ALONG_TERMS ? 1u : 0u);
    [[unroll]] for (uint element = 0u; element < 4u; ++element) {
        if (is_whole || at.y + element * next.y < end) {
            uint index = LEFT_ALONG_TERMS && LEFT_TERMS_ARE_EVEN
                ? beginning + element * parameters.left_term
                : left_index(batch, min(at.x + element * next.x, last), at.y + element * next.y);
            LOAD_ELEMENT(four, element, left, index)
        }
    }
    return four;
}

#if CONVOLUTION
// What an invocation loads of the input in its i-th iteration: four terms of its column, which is the same in every iteration; or one term
// of its four.
Four right_four(Column own, uint beginning, uint i, uint term, uint end, uint invocation) {
    uint position = right_position(i, invocation).x;
    Four four = Four(uvec4(0u), 0u);
    if (RIGHT_HAS_VECTORS) {
        if (is_right_four(i, invocation) && (TERMS_FILL_TILES || term + position < end)) {
            four = LOAD_VECTOR(right, beginning + (term + position) * parameters.input_channel);
        }
        return four;
    }
    if (is_right_four(i, invocation)) {
        [[unroll]] for (uint element = 0u; element < 4u; ++element) {
            uint index = index_of_term(own, beginning, term_positions[position + element]);
            if (index != NOWHERE) {
                LOAD_ELEMENT(four, element, right, index)
            }
        }
    }
    return four;
}
#else
uint right_beginning(Batch batch, uint i, uint column, uint term, uint invocation) {
    uvec2 position = right_position(i, invocation);
    uint last = parameters.columns - (!RIGHT_ALONG_TERMS && RIGHT_HAS_VECTORS ? 4u : 1u);
    return batch.right + (term + position.x) * parameters.right_term + min(column + position.y, last) * parameters.right_column;
}
Four right_four(Batch batch, uint beginning, bool is_whole, uint i, uint column, uint term, uint end, uint invocation) {
    uvec2 position = right_position(i, invocation);
    uvec2 at = uvec2(term + position.x, column + position.y);
    Four four = Four(uvec4(0u), 0u);
    if (!is_right_four(i, invocation) || !(is_whole || at.x < end)) { return four; }
    if (RIGHT_HAS_VECTORS) { return LOAD_VECTOR(right, beginning); }
    uint last = parameters.columns - 1u;
    uvec2 next = uvec2(RIGHT_ALONG_TERMS ? 1u : 0u, RIGHT_ALONG_TERMS ? 0u : 1u);
    [[unroll]] for (uint element = 0u; element < 4u; ++element) {
        if (is_whole || at.x + element * next.x < end) {
            uint index = right_index(column_at(batch, min(at.y + element * next.y, last)), at.x + element * next.x);
            LOAD_ELEMENT(four, element, right, index)
        }
    }
    return four;
}
#endif

// Writes what was loaded in the i-th iteration into an operand's tile.
void put_left(uint i, vec4 four, uint tile, uint invocation) {
    uvec2 position = left_position(i, invocation);
    uint at = tile + LEFT_AT(position.y) + position.x / 4u;
    if (LEFT_ALONG_TERMS) {
        tiles[at][position.x & 3u] = four.x;
        tiles[at + LEFT_LINE][position.x & 3u] = four.y;
        tiles[at + 2u * LEFT_LINE][position.x & 3u] = four.z;
        tiles[at + 3u * LEFT_LINE][position.x & 3u] = four.w;
    } else {
        tiles[at] = four;
    }
}
void put_right(uint i, vec4 four, uint tile, uint invocation) {
    uvec2 position = right_position(i, invocation);
    uint at = tile + RIGHT_AT(position.x) + position.y / 4u;
    if (!RIGHT_IS_ACROSS) {
        tiles[at][position.y & 3u] = four.x;
        tiles[at + RIGHT_LINE][position.y & 3u] = four.y;
        tiles[at + 2u * RIGHT_LINE][position.y & 3u] = four.z;
        tiles[at + 3u * RIGHT_LINE][position.y & 3u] = four.w;
    } else {
        tiles[at] = four;
    }
}

// What follows stands in main() as it is: arrays that functions share are kept in memory by some drivers.
#define LOAD_LEFT(term, is_whole) \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        left_loaded[i] = left_four(batch, left_next[i], is_whole, i, first_row, term, end, invocation); \
    }
#define ADVANCE_LEFT(terms) \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        left_next[i] += (terms) * parameters.left_term; \
    }
#if CONVOLUTION
#define ADVANCE_RIGHT(terms)
#define POSITION_TERMS(term) \
    if (!RIGHT_HAS_VECTORS && invocation < TILE_TERMS) { \
        term_positions[invocation] = position_of_term((term) + invocation, end); \
    }
#define LOAD_TILES(term) \
    { \
        [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
            right_loaded[i] = right_four(own, own_beginning, i, term, end, invocation); \
        } \
        if (TERMS_FILL_TILES || (term) + TILE_TERMS <= end) { \
            LOAD_LEFT(term, true) \
        } else { \
            LOAD_LEFT(term, false) \
        } \
    }
#else
#define POSITION_TERMS(term)
#define ADVANCE_RIGHT(terms) \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        right_next[i] += (terms) * parameters.right_term; \
    }
#define LOAD_RIGHT(term, is_whole) \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        right_loaded[i] = right_four(batch, right_next[i], is_whole, i, first_column, term, end, invocation); \
    }
#define LOAD_TILES(term) \
    if (TERMS_FILL_TILES || (term) + TILE_TERMS <= end) { \
        LOAD_LEFT(term, true) \
        LOAD_RIGHT(term, true) \
    } else { \
        LOAD_LEFT(term, false) \
        LOAD_RIGHT(term, false) \
    }
#endif

#define PUT_TILES \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        if (is_left_four(i, invocation)) { \
            uvec4 bits = operands_of(left_loaded[i], LEFT_HAS_VECTORS); \
            LOOK_AT(own_left_lowest, bits) \
            put_left(i, uintBitsToFloat(bits), tile, invocation); \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        if (is_right_four(i, invocation)) { \
            uvec4 bits = operands_of(right_loaded[i], RIGHT_HAS_VECTORS); \
            LOOK_AT(own_right_lowest, bits) \
            put_right(i, uintBitsToFloat(bits), tile, invocation); \
        } \
    }

// Every other row of results from its end on: then neighbours have an operand in common, which a core reads once.
#ifdef TWO_TILES
#define IN_ORDER(i, number) (((i) & 1u) == 0u ? (number) : RESULT_COLUMNS - 1u - (number))
#else
#define IN_ORDER(i, number) (number)
#endif
#define ADD_PRODUCTS \
    [[unroll]] for (uint step = 0u; step < TILE_TERMS; ++step) { \
        vec4 a[ROW_FOURS], b[COLUMN_FOURS]; \
        [[unroll]] for (uint i = 0u; i < ROW_FOURS; ++i) { \
            a[i] = tiles[tile + LEFT_AT(step) + i * INVOCATION_ROWS + own_row]; \
        } \
        [[unroll]] for (uint i = 0u; i < COLUMN_FOURS; ++i) { \
            b[i] = tiles[tile + RIGHT_AT(step) + i * INVOCATION_COLUMNS + own_column]; \
        } \
        [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) { \
            [[unroll]] for (uint number = 0u; number < RESULT_COLUMNS; ++number) { \
                uint j = IN_ORDER(i, number); \
                sums[i * RESULT_COLUMNS + j] = product_plus(a[i / 4u][i & 3u], b[j / 4u][j & 3u], sums[i * RESULT_COLUMNS + j]); \
            } \
        } \
    }

// Whether columns 4n to 4n + 3 of the output lie behind one another, at multiples of four elements: an invocation, whose sums are such
// fours, stores them from its registers. Nothing waits for anything then.
#if CONVOLUTION
layout(constant_id = 38) const bool OUTPUT_HAS_FOURS = false;
#else
layout(constant_id = 11) const bool OUTPUT_HAS_FOURS = false;
#endif

// Where the four sums stand that an invocation has at a number.
uvec2 position_of_four(uint number, uint own_row, uint own_column) {
    uint i = number / COLUMN_FOURS;
    uint row = i / 4u * (INVOCATION_ROWS * 4u) + own_row * 4u + i % 4u;
    return uvec2(row, (number % COLUMN_FOURS * INVOCATION_COLUMNS + own_column) * 4u);
}

uint index_of_four(Batch batch, uint row, uint column) {
    if (WRITES_TOTALS) { return batch.results + row * parameters.columns + column; }
#if CONVOLUTION
    return output_index(batch, row, column);
#else
    return batch.results + row * OUTPUT_ROW + column;
#endif
}

// What a graph adds to four results, which nobody changes meanwhile.
uvec4 residual_four(Batch batch, uint row, uint column, uint segment) {
#if HAS_EPILOGUE
    if (EPILOGUE_ADDS && !WRITES_TOTALS && segment + 1u == SEGMENTS) {
        uint index = residual_index(output_index(batch, row, column)) >> 2u;
#if OPERAND_BITS == 16
        uvec2 pairs = pairs_residual[index];
        return uvec4(pairs.x & 0xffffu, pairs.x >> 16u, pairs.y & 0xffffu, pairs.y >> 16u);
#else
        return fours_residual[index];
#endif
    }
#endif
    return uvec4(0u);
}

// What is done with four complete sums of a segment.
void deliver_four(Batch batch, uvec4 sums, uvec4 residual, uint row, uint column, uint segment) {
    uint index = index_of_four(batch, row, column);
    if (SEGMENTS_COME != ONE_SEGMENT) {
        if (SEGMENTS_COME == SEQUENTIAL && segment > 0u) {
            uvec4 before = fours_output[index >> 2u];
            [[unroll]] for (uint part = 0u; part < 4u; ++part) {
                sums[part] = sum_plus(before[part], sums[part]);
            }
        }
        if (WRITES_TOTALS || segment + 1u < SEGMENTS) {
            fours_output[index >> 2u] = sums;
            return;
        }
    }
    uvec4 results;
    [[unroll]] for (uint part = 0u; part < 4u; ++part) {
        results[part] = finished_beside(batch, sums[part], residual[part], row, column + part);
    }
#if OPERAND_BITS == 16
    pairs_output[index >> 2u] = uvec2(results.x | results.y << 16u, results.z | results.w << 16u);
#else
    fours_output[index >> 2u] = results;
#endif
}

// A segment's sums leave the registers through shared memory, one of RESULT_ROWS at a time, so that neighbouring invocations store
// neighbouring results. This is what is done with such a part: an invocation stores results of one column, or of one pair of columns,
// `column_index` from the first of their row.
#define AT_ONCE (32 / OPERAND_BITS)
#define STORED_FROM_ROW_TO_ROW (INVOCATIONS / (TILE_COLUMNS / AT_ONCE))
void deliver(Batch batch, bool plain, uint iteration, uint first_row, uint first_column, uint segment, uint end, uint column_index,
    uint invocation) {
    uint first_tile_column = invocation % (TILE_COLUMNS / AT_ONCE) * AT_ONCE;
    for (uint tile_row = invocation / (TILE_COLUMNS / AT_ONCE); tile_row < INVOCATION_ROWS; tile_row += STORED_FROM_ROW_TO_ROW) {
        uint row = first_row + iteration / 4u * (INVOCATION_ROWS * 4u) + tile_row * 4u + iteration % 4u;
        uint word = 0u;
        for (uint part = 0u; part < AT_ONCE; ++part) {
            uint tile_column = first_tile_column + part;
            uint column = first_column + tile_column;
            if (row < parameters.rows && column < parameters.columns) {
                float known = tiles[tile_row * RIGHT_LINE + tile_column / 4u][tile_column & 3u];
                uint sum = plain && is_finite(known) ? floatBitsToUint(known) : exact_sum(batch, row, column, segment * SEGMENT, end);
                if (is_complete(batch, sum, row, column, segment)) {
                    uint result = finished(batch, sum, row, column);
                    uint index = part == 0u ? batch.results + row * OUTPUT_ROW + column_index : output_index(batch, row, column);
#if OPERAND_BITS == 16
                    if (OUTPUT_HAS_PAIRS) {
                        word |= result << (part * 16u);
                        if (part == 1u) { words_output[index >> 1u] = word; }
                        continue;
                    }
#endif
                    STORE(OPERAND_BITS, words_output, index, result);
                }
            }
        }
    }
}

void main() {
    WORK_GROUP(group)
#ifdef READS_REST
    if (words_rest[REST_COUNT(group)] <= MOST_APART) { // of the results that were left to others
        return;
    }
#endif
    uint invocation = index_in_group();
    Position position = position_of(group);
    Batch batch = position.batch;
    uint first_row = position.first_row;
    uint first_column = position.first_column;
#if CONVOLUTION
    uint loaded_column = first_column + (RIGHT_HAS_VECTORS ? invocation % (TILE_COLUMNS / 4) * 4u : invocation % TILE_COLUMNS);
    Column own = column_at(batch, min(loaded_column, parameters.columns - (RIGHT_HAS_VECTORS ? 4u : 1u)));
    uint own_beginning = beginning_of(own);
#endif
    uint stored_column = first_column + invocation % (TILE_COLUMNS / AT_ONCE) * AT_ONCE;
    uint column_index = output_index(batch, 0u, min(stored_column, parameters.columns - 1u)) - batch.results;
#ifdef TWO_TILES
    // 32 neighbours have 4 x 8 blocks of results, two rows in turn: so a core reads what several of them want once.
    uint block = invocation / 32u;
    uint own_row = block / (INVOCATION_COLUMNS / 8u) * 4u + (invocation >> 4u & 1u) * 2u + (invocation & 1u);
    uint own_column = block % (INVOCATION_COLUMNS / 8u) * 8u + (invocation >> 1u & 7u);
#else
    uint own_row = invocation / INVOCATION_COLUMNS;
    uint own_column = invocation % INVOCATION_COLUMNS;
#endif
    uint tile = 0u; // where the present one begins
    Four left_loaded[LEFT_LOADS];
    Four right_loaded[RIGHT_LOADS];
    uint left_next[LEFT_LOADS];
#if !CONVOLUTION
    uint right_next[RIGHT_LOADS];
#endif
    float sums[RESULT_ROWS * RESULT_COLUMNS];
    for (uint segment = position.first_segment; segment < position.end_segment; ++segment) {
        uint first = segment * SEGMENT;
        uint end = min(first + SEGMENT, parameters.terms);
        [[unroll]] for (uint i = 0u; i < RESULT_ROWS * RESULT_COLUMNS; ++i) {
            sums[i] = 0.0;
        }
        [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) {
            left_next[i] = left_beginning(batch, i, first_row, first, invocation);
        }
#if CONVOLUTION
        if (!RIGHT_HAS_VECTORS) {
            POSITION_TERMS(first)
            barrier();
        }
#else
        [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) {
            right_next[i] = right_beginning(batch, i, first_column, first, invocation);
        }
#endif
        LOOK_FROM_HERE
        LOAD_TILES(first)
#if CONVOLUTION
        if (!RIGHT_HAS_VECTORS) {
            barrier(); // all have read the places of the first terms
        }
#endif
        for (uint term = first; term < end; term += TILE_TERMS) {
            PUT_TILES
            POSITION_TERMS(term + TILE_TERMS)
            barrier();
            uint further = term + TILE_TERMS < end ? TILE_TERMS : 0u;
            ADVANCE_LEFT(further)
            ADVANCE_RIGHT(further)
            if (LOADS_WITHOUT_BRANCH || further > 0u) {
                LOAD_TILES(term + further)
            }
            ADD_PRODUCTS
#ifdef TWO_TILES
            tile = BOTH_TILES - tile; // whoever writes there next has seen all wait who read there
#else
            barrier();
#endif
        }
        LOOK_BACK
        if (OUTPUT_HAS_FOURS) {
            uvec4 residuals[RESULT_ROWS * COLUMN_FOURS]; // all are loaded before the first one is needed
            [[unroll]] for (uint number = 0u; number < RESULT_ROWS * COLUMN_FOURS; ++number) {
                uvec2 at = uvec2(first_row, first_column) + position_of_four(number, own_row, own_column);
                at = min(at, uvec2(parameters.rows - 1u, parameters.columns - 4u));
                residuals[number] = residual_four(batch, at.x, at.y, segment);
            }
            uint slow_path = 0u; // a bit for each four that has to be computed with care
            [[unroll]] for (uint number = 0u; number < RESULT_ROWS * COLUMN_FOURS; ++number) {
                uvec2 at = uvec2(first_row, first_column) + position_of_four(number, own_row, own_column);
                if (at.x < parameters.rows && at.y < parameters.columns) {
                    vec4 four = vec4(sums[4u * number], sums[4u * number + 1u], sums[4u * number + 2u], sums[4u * number + 3u]);
                    if (plain && is_finite(four.x) && is_finite(four.y) && is_finite(four.z) && is_finite(four.w)) {
                        deliver_four(batch, floatBitsToUint(four), residuals[number], at.x, at.y, segment);
                    } else {
                        slow_path |= 1u << number;
                    }
                }
            }
            for (; slow_path != 0u; slow_path &= slow_path - 1u) {
                uvec2 at = uvec2(first_row, first_column) + position_of_four(uint(findLSB(slow_path)), own_row, own_column);
                uvec4 four = uvec4(0u);
                for (uint part = 0u; part < 4u; ++part) {
                    four[part] = exact_sum(batch, at.x, at.y + part, first, end);
                }
                deliver_four(batch, four, residual_four(batch, at.x, at.y, segment), at.x, at.y, segment);
            }
#if LOOKS_AT_DENORMALS
            barrier(); // all have read what the lowest operands are
#endif
            continue;
        }
#ifdef TWO_TILES
        barrier(); // all have read the last tile: results may lie in its place
#endif
        for (uint iteration = 0u; iteration < RESULT_ROWS; ++iteration) {
            [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
                if (iteration == i) {
                    [[unroll]] for (uint four = 0u; four < COLUMN_FOURS; ++four) {
                        uint sum = i * RESULT_COLUMNS + 4u * four;
                        tiles[own_row * RIGHT_LINE + four * INVOCATION_COLUMNS + own_column] =
                            vec4(sums[sum], sums[sum + 1u], sums[sum + 2u], sums[sum + 3u]);
                    }
                }
            }
            barrier();
            deliver(batch, plain, iteration, first_row, first_column, segment, end, column_index, invocation);
            barrier();
        }
    }
}
