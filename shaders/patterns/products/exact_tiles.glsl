// Tiles of products of FLOAT32 by exact integers: operands as exact_layout.glsl has them, bytes of them multiplied as matrices that a
// subgroup holds together (cooperative_bytes.glsl). Sums of integers are the same in any order.
//
// The scheme is K. Ozaki's with slices of 8 bits (H. Ootomo, K. Ozaki, R. Yokota, DGEMM on integer matrix multiplication unit, 2024); that
// each result is certified, and computed with more where it is not, is our own.
//
// Of the nine products of three bytes by three, the six with p + q <= 2 are added up: for each p + q the integers of a block, which are
// rounded as they are put together, and then the blocks in rising order. Sums whose error may exceed what is stated, by the magnitudes of
// half of their terms, are counted for their tile, and marked. A second launch (ADDS_OTHERS) adds the other three products in tiles with
// such, and looks at all magnitudes. What is still not certified exact_rest.glsl and matrix_tiles.glsl compute. What is known of the blocks of
// a result's row and column, and nothing else, decides: docs/notes/exact-products.md has the proof.
//
// A work group has a tile of TILE_ROWS x TILE_COLUMNS results, of which each of its subgroups computes 32 x 32.
//
// Its buffers are not `coherent`: it runs only where barriers are recorded between dispatches (dmlvk/kernels/target.py).

#include "cooperative_bytes.glsl"
#define coherent
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#define WRITES_REST
#define TILE_ROWS 64
#define TILE_COLUMNS 128
#define INVOCATIONS 256
// Whether all batches have the same left or right operand, of which there is one copy then.
layout(constant_id = 38) const bool LEFT_IS_SHARED = false;
layout(constant_id = 39) const bool RIGHT_IS_SHARED = false;
#include "products/matrix.glsl"
#include "products/matrix_groups.glsl"
#include "products/read_operands.glsl"
#include "products/exact_layout.glsl"
#include "products/exact_marks.glsl"

layout(local_size_x = INVOCATIONS) in;

#define SUBGROUPS_ACROSS 4u
#define SUMS_DOWN 2u
#define SUMS_ACROSS 2u
#define SUMS (SUMS_DOWN * SUMS_ACROSS)
#define STEP_VECTORS 4u // of 16 terms, at once
#define PITCH 5u        // one vector more moves what is loaded together to other banks
#define RIGHT_SPACE (3u * TILE_ROWS * PITCH)
shared uvec4 lines[RIGHT_SPACE + 3u * TILE_COLUMNS * PITCH];
// Numbers of blocks: a float for each left line, and then for each right one. Of p it is p times 2^-6, for which 65536 integers are one.
#define NUMBERS ((TILE_ROWS + TILE_COLUMNS) / 4u)
#define MASKS (2u * NUMBERS)
shared uvec4 numbers[4u * NUMBERS];
#define MASK(invocation) numbers[MASKS + (invocation) / 4u][(invocation) % 4u]

// The vectors that an invocation puts into shared memory: line by line of three planes.
#define LEFT_LOADS 3u
#define RIGHT_LOADS 6u
#define LINE (own / STEP_VECTORS) // of 64

// What follows stands in main() as it is: arrays that functions share are kept in memory by some drivers.
#define LOAD_PLANES(left_first, left_plane, right_first, right_plane) \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        from_left[i] = read_left[(left_first) + i * (left_plane)]; \
    } \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        from_right[i] = read_right[(right_first) + i / 2u * (right_plane) + i % 2u * 64u * LINE_VECTORS]; \
    }
// Of the magnitudes of three blocks a fourth, in the place of three planes: 16 of 64 neighbouring terms, which no order that data may have
// tells, and in a second turn those behind them.
#define HASH_OF(block) (((block) * 4u + own % STEP_VECTORS) * 2654435769u >> 30u)
#define SAMPLE_OF(block, turn) ((block) * BLOCK_VECTORS + own % STEP_VECTORS * 4u + (HASH_OF(block) + (turn)) % 4u)
#define LOAD_MAGNITUDES(block, turn) \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        from_left[i] = (block) + i < BLOCKS ? read_left[left_low + SAMPLE_OF((block) + i, turn)] : uvec4(0u); \
    } \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        uint sampled = right_low + i % 2u * 64u * LINE_VECTORS + SAMPLE_OF((block) + i / 2u, turn); \
        from_right[i] = (block) + i / 2u < BLOCKS ? read_right[sampled] : uvec4(0u); \
    }
#define PUT_PLANES \
    barrier(); \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        lines[(i * TILE_ROWS + LINE) * PITCH + own % STEP_VECTORS] = from_left[i]; \
    } \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        lines[RIGHT_SPACE + (i * 64u + LINE) * PITCH + own % STEP_VECTORS] = from_right[i]; \
    } \
    barrier();

// Products of the planes p and q that HAS_PRODUCT, added to the integers of SUM_OF.
#define MULTIPLY(HAS_PRODUCT, SUM_OF) \
    [[unroll]] for (uint k = 0u; k < STEP_VECTORS; k += 2u) { \
        LEFT_BYTES left[3u * SUMS_DOWN]; \
        [[unroll]] for (uint p = 0u; p < 3u; ++p) { \
            [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) { \
                LOAD_LEFT_BYTES(left[p * SUMS_DOWN + i], lines, (p * TILE_ROWS + first_row + i * SIDE) * PITCH + k, PITCH) \
            } \
        } \
        [[unroll]] for (uint q = 0u; q < 3u; ++q) { \
            [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) { \
                RIGHT_BYTES right; \
                LOAD_RIGHT_BYTES(right, lines, RIGHT_SPACE + (q * TILE_COLUMNS + first_column + j * SIDE) * PITCH + k, PITCH) \
                [[unroll]] for (uint p = 0u; p < 3u; ++p) { \
                    if (HAS_PRODUCT(p, q)) { \
                        [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) { \
                            uint sum = SUM_OF(p, q) * SUMS + i * SUMS_ACROSS + j; \
                            sums[sum] = BYTES_PRODUCT_PLUS(left[p * SUMS_DOWN + i], right, sums[sum]); \
                        } \
                    } \
                } \
            } \
        } \
    }
#define HAS_LOW(p, q) ((p) == (q))
#define LOW(p, q) (p)
#define HAS_SIX(p, q) ((p) + (q) <= 2u)
#define SIX(p, q) ((p) + (q))
// The planes are the second bytes, the third ones, and the magnitudes.
#define HAS_OTHERS(p, q) ((p) + (q) == 1u || ((p) == (q) && (p) > 0u))
#define OTHERS(p, q) ((p) + (q) == 4u ? 2u : (p) + (q) - 1u)

#define CLEAR(first, end) \
    [[unroll]] for (uint i = (first) * SUMS; i < (end) * SUMS; ++i) { \
        sums[i] = integers_filled_with(0); \
    }

// The numbers of an invocation's line of a block, of which there is one for each of the first invocations.
#define HAS_LINE (own < TILE_ROWS + TILE_COLUMNS)
#define NUMBERS_OF_LINE(block) \
    (own < TILE_ROWS ? read_left[left_blocks + (block) * left_lines + own] \
                     : read_right[right_blocks + (block) * right_lines + min(own - TILE_ROWS, TILE_COLUMNS - 1u)])
#define PUT_NUMBER(array, at, bits) array[(at) + own / 4u][own % 4u] = (bits);
#define PER_SIDE(power) (max(power, 6u << 23u) - (6u << 23u))
#define POWER_OF_ERRORS(line) ((line).x - (((line).w & IS_EXACT) != 0u ? 3u << 23u : 0u))
#define STATED(line) floatBitsToUint(uintBitsToFloat(UNIT_OF(line)) * (own < TILE_ROWS ? -stated : 1.0)) // exact
#define OF_ROW(i) ((first_row + (i) * SIDE) / 4u)
#define OF_COLUMN(j) ((TILE_ROWS + first_column + (j) * SIDE) / 4u)

// What the error of a sum may be beyond what is stated, in units of 2^-23: p of either line times the other one's errors, less what is stated of
// the magnitudes that are known. Products by p and by units are exact. `of_rows` and `of_columns` are a number of each line.
#define ADD_ERRORS(excess, of_rows, of_columns) \
    excess = sum_of(excess, sum_of(product_of(of_rows[0], of_columns[1]), product_of(of_rows[1], of_columns[0])));
#define ADD_KNOWN(excess, magnitudes, of_rows, of_columns) \
    excess = sum_of(excess, product_of(product_of(floats_of(magnitudes), of_rows), of_columns));
#define LOAD_OF_ROWS(of_rows, count, array, at, i) \
    [[unroll]] for (uint each = 0u; each < count; ++each) { \
        LOAD_FLOATS_OF_ROWS(of_rows[each], array, (at) + each * NUMBERS + OF_ROW(i)) \
    }
#define LOAD_OF_COLUMNS(of_columns, count, array, at, j) \
    [[unroll]] for (uint each = 0u; each < count; ++each) { \
        LOAD_FLOATS_OF_COLUMNS(of_columns[each], array, (at) + each * NUMBERS + OF_COLUMN(j)) \
    }

// All blocks of three planes from a first one on, and with JOIN what becomes of a block's integers. Products by powers of two are exact, so
// that it is the same whether they are one instruction with a sum or not; and so are integers below 2^24 as FLOAT32.
#define GO_THROUGH_BLOCKS(plane, HAS_PRODUCT, SUM_OF, PUT, SCALES, JOIN) \
    LOAD_PLANES(left_at + (plane) * left_plane, left_plane, right_at + (plane) * right_plane, right_plane) \
    uvec4 of_line = NUMBERS_OF_LINE(0u); \
    [[dont_unroll]] for (uint block = 0u; block < BLOCKS; ++block) { \
        PUT(block) \
        of_line = NUMBERS_OF_LINE(min(block + 1u, BLOCKS - 1u)); \
        [[dont_unroll]] for (uint step = 0u; step < BLOCK_VECTORS; step += STEP_VECTORS) { \
            PUT_PLANES \
            uint next = min(block * BLOCK_VECTORS + step + STEP_VECTORS, LINE_VECTORS - STEP_VECTORS); \
            uint left_next = left_at + (plane) * left_plane + next; \
            uint right_next = right_at + (plane) * right_plane + next; \
            LOAD_PLANES(left_next, left_plane, right_next, right_plane) \
            MULTIPLY(HAS_PRODUCT, SUM_OF) \
        } \
        [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) { \
            FLOATS of_rows; \
            LOAD_FLOATS_OF_ROWS(of_rows, numbers, SCALES(block) + OF_ROW(i)) \
            [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) { \
                FLOATS of_columns; \
                LOAD_FLOATS_OF_COLUMNS(of_columns, numbers, SCALES(block) + OF_COLUMN(j)) \
                uint number = i * SUMS_ACROSS + j; \
                FLOATS joined; \
                JOIN \
                totals[number] = sum_of(totals[number], product_of(product_of(joined, of_rows), of_columns)); \
            } \
        } \
    }
// Of two blocks in turn.
#define SCALES_IN_TURN(block) ((block) % 2u * NUMBERS)
#define PUT_SCALES(block) \
    if (HAS_LINE) { \
        PUT_NUMBER(numbers, SCALES_IN_TURN(block), PER_SIDE(of_line.x)) \
    }
#define SCALES_ALONE(block) 0u
#define PUT_ALL_NUMBERS(block) \
    barrier(); \
    if (HAS_LINE) { \
        is_out = is_out || of_line.w == IS_OUT; \
        PUT_NUMBER(numbers, 0u, PER_SIDE(of_line.x)) \
        PUT_NUMBER(numbers, NUMBERS, POWER_OF_ERRORS(of_line)) \
        PUT_NUMBER(numbers, 2u * NUMBERS, of_line.y) \
        PUT_NUMBER(numbers, 3u * NUMBERS, STATED(of_line)) \
    }
#define JOIN_SIX \
    joined = sum_of(product_of(floats_of(sums[2u * SUMS + number]), per_byte), floats_of(sums[SUMS + number])); \
    joined = sum_of(product_of(joined, per_byte), floats_of(sums[number])); \
    [[unroll]] for (uint p = 0u; p < 3u; ++p) { \
        sums[p * SUMS + number] = integers_filled_with(0); \
    }
#define JOIN_OTHERS \
    joined = sum_of(product_of(floats_of(sums[SUMS + number]), per_byte), floats_of(sums[number])); \
    joined = product_of(joined, per_three_bytes); \
    { \
        FLOATS beside_row[3]; \
        FLOATS beside_column[3]; \
        LOAD_OF_ROWS(beside_row, 3u, numbers, NUMBERS, i) \
        LOAD_OF_COLUMNS(beside_column, 3u, numbers, NUMBERS, j) \
        ADD_ERRORS(excess[number], beside_row, beside_column) \
        ADD_KNOWN(excess[number], sums[2u * SUMS + number], beside_row[2], beside_column[2]) \
    } \
    [[unroll]] for (uint p = 0u; p < 3u; ++p) { \
        sums[p * SUMS + number] = integers_filled_with(0); \
    }

// Where an invocation finds eight elements of a matrix that its subgroup has put into shared memory, row by row.
#define ROW_OF(each) (LANE / 16u + 2u * (each))
#define ELEMENT(each) lines[own_space + ROW_OF(each) * 4u + LANE % 16u / 4u][LANE % 4u]
#define OWN_BIT(matrix, each) (1u << 8u * (matrix) + (each))
#define MATRIX_ROW(matrix) (first_row + (matrix) / SUMS_ACROSS * SIDE)
#define MATRIX_COLUMN(matrix) (first_column + (matrix) % SUMS_ACROSS * SIDE)

// Lines of the tile with a block that is out of range.
#define PUT_WHAT_IS_OUT \
    barrier(); \
    if (HAS_LINE) { \
        PUT_NUMBER(numbers, 0u, uint(is_out)) \
    } \
    barrier();

// Whether a sum is, by the bits of what its error may be beyond what is stated, which is not positive then.
bool is_certified(uint excess, uint row, uint column) {
    uint right = TILE_ROWS + column;
    return int(excess) <= 0 && (numbers[row / 4u][row % 4u] | numbers[right / 4u][right % 4u]) == 0u;
}

// How many bits all invocations of the work group have set.
uint count_of_all(uint own, uint mask) {
    barrier();
    MASK(own) = uint(bitCount(mask));
    for (uint half_ = INVOCATIONS / 2u; half_ > 0u; half_ /= 2u) {
        barrier();
        if (own < half_) { MASK(own) += MASK(own + half_); }
    }
    barrier();
    return MASK(0u);
}

void main() {
    WORK_GROUP(group)
    uint own = index_in_group();
#ifdef ADDS_OTHERS
    if (words_rest[REST_COUNT(group)] == 0u) { return; }
    uint mask = words_rest[REST_MASK(group, own)];
#endif
    Position position = position_of(group);
    uint number_of_batch = group / (parameters.row_tiles * parameters.column_tiles);
    uint batches = parameters.work_items / (parameters.row_tiles * parameters.column_tiles);
    uint left_copy = LEFT_IS_SHARED ? 0u : number_of_batch;
    uint right_copy = RIGHT_IS_SHARED ? 0u : number_of_batch;
    uint left_copies = LEFT_IS_SHARED ? 1u : batches;
    uint right_copies = RIGHT_IS_SHARED ? 1u : batches;
    uint left_lines = parameters.row_tiles * TILE_ROWS;
    uint right_lines = parameters.column_tiles * TILE_COLUMNS;
    uint left_base = BASE_WORD(left) >> 2u;
    uint right_base = BASE_WORD(right) >> 2u;
    uint left_plane = left_lines * LINE_VECTORS;
    uint right_plane = right_lines * LINE_VECTORS;
    uint left_at = left_base + plane_at(left_copy, 0u, left_lines) + (position.first_row + LINE) * LINE_VECTORS + own % STEP_VECTORS;
    uint right_at = right_base + plane_at(right_copy, 0u, right_lines) + (position.first_column + LINE) * LINE_VECTORS + own % STEP_VECTORS;
    uint left_blocks = left_base + block_at(left_copies, left_copy, 0u, left_lines) + position.first_row;
    uint right_blocks = right_base + block_at(right_copies, right_copy, 0u, right_lines) + position.first_column;
    uint first_row = SUBGROUP / SUBGROUPS_ACROSS * 32u; // of the tile's
    uint first_column = SUBGROUP % SUBGROUPS_ACROSS * 32u;
    uint own_space = SUBGROUP * 64u;

    uvec4 from_left[LEFT_LOADS], from_right[RIGHT_LOADS];
    INTEGERS sums[3u * SUMS];
    FLOATS totals[SUMS];
    FLOATS excess[SUMS];
    bool is_out = false;
    // What is stated, less what adding up rounds.
    float stated = 0.5 * float(int(min(parameters.terms, SEGMENT) + SEGMENTS - 2u * BLOCKS - 32u));
    FLOATS per_byte = floats_filled_with(1.0 / 256.0);
    [[unroll]] for (uint matrix = 0u; matrix < SUMS; ++matrix) {
        totals[matrix] = floats_filled_with(0.0);
        excess[matrix] = floats_filled_with(0.0);
    }
    CLEAR(0u, 3u)
#ifdef ADDS_OTHERS
    FLOATS per_three_bytes = floats_filled_with(1.0 / 16777216.0);
    GO_THROUGH_BLOCKS(1u, HAS_OTHERS, OTHERS, PUT_ALL_NUMBERS, SCALES_ALONE, JOIN_OTHERS)
    PUT_WHAT_IS_OUT
    [[unroll]] for (uint matrix = 0u; matrix < SUMS; ++matrix) {
        SUBGROUP_BARRIER
        STORE_FLOATS(lines, own_space, totals[matrix], 4u)
        SUBGROUP_BARRIER
        uint further[8];
        [[unroll]] for (uint each = 0u; each < 8u; ++each) {
            further[each] = ELEMENT(each);
        }
        SUBGROUP_BARRIER
        STORE_FLOATS(lines, own_space, excess[matrix], 4u)
        SUBGROUP_BARRIER
        [[unroll]] for (uint each = 0u; each < 8u; ++each) {
            uint row = MATRIX_ROW(matrix) + ROW_OF(each);
            uint column = MATRIX_COLUMN(matrix) + LANE % 16u;
            bool is_open = (mask & OWN_BIT(matrix, each)) != 0u;
            if (is_open && is_certified(ELEMENT(each), row, column)) {
                mask &= ~OWN_BIT(matrix, each);
                row += position.first_row;
                column += position.first_column;
                uint at = output_index(position.batch, row, column);
                words_output[at] = finished(position.batch, plain_sum(words_output[at], further[each]), row, column);
            }
        }
    }
#else
    uint left_low = left_at + MAGNITUDES * left_plane - own % STEP_VECTORS;
    uint right_low = right_at + MAGNITUDES * right_plane - own % STEP_VECTORS;
    LOAD_MAGNITUDES(0u, 0u)
    [[dont_unroll]] for (uint block = 0u; block < BLOCKS; block += 3u) {
        uvec4 of_line[3]; // which are on their way meanwhile
        [[unroll]] for (uint p = 0u; p < 3u; ++p) {
            of_line[p] = block + p < BLOCKS ? NUMBERS_OF_LINE(block + p) : uvec4(0u);
        }
        [[dont_unroll]] for (uint turn = 0u; turn < 2u; ++turn) {
            PUT_PLANES
            LOAD_MAGNITUDES(block + 3u * turn, 1u - turn)
            MULTIPLY(HAS_LOW, LOW)
        }
        barrier();
        if (HAS_LINE) {
            precise float errors = uintBitsToFloat(of_line[0].z) + uintBitsToFloat(of_line[1].z);
            errors += uintBitsToFloat(of_line[2].z);
            PUT_NUMBER(lines, 0u, max(max(of_line[0].x, of_line[1].x), of_line[2].x))
            PUT_NUMBER(lines, NUMBERS, floatBitsToUint(errors))
            [[unroll]] for (uint p = 0u; p < 3u; ++p) {
                is_out = is_out || of_line[p].w == IS_OUT;
                PUT_NUMBER(lines, (2u + p) * NUMBERS, STATED(of_line[p]))
            }
        }
        barrier();
        FLOATS of_columns[SUMS_ACROSS][5];
        [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) {
            LOAD_OF_COLUMNS(of_columns[j], 5u, lines, 0u, j)
        }
        [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) {
            FLOATS of_row[5];
            LOAD_OF_ROWS(of_row, 5u, lines, 0u, i)
            [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) {
                uint number = i * SUMS_ACROSS + j;
                ADD_ERRORS(excess[number], of_row, of_columns[j])
                [[unroll]] for (uint p = 0u; p < 3u; ++p) {
                    ADD_KNOWN(excess[number], sums[p * SUMS + number], of_row[2u + p], of_columns[j][2u + p])
                }
            }
        }
        CLEAR(0u, 3u)
    }
    PUT_WHAT_IS_OUT
    uint mask = 0u;
    [[unroll]] for (uint matrix = 0u; matrix < SUMS; ++matrix) {
        SUBGROUP_BARRIER
        STORE_FLOATS(lines, own_space, excess[matrix], 4u)
        SUBGROUP_BARRIER
        [[unroll]] for (uint each = 0u; each < 8u; ++each) {
            uint row = MATRIX_ROW(matrix) + ROW_OF(each);
            uint column = MATRIX_COLUMN(matrix) + LANE % 16u;
            if (position.first_row + row < parameters.rows && position.first_column + column < parameters.columns) {
                mask |= is_certified(ELEMENT(each), row, column) ? 0u : OWN_BIT(matrix, each);
            }
        }
    }
    barrier();
    GO_THROUGH_BLOCKS(0u, HAS_SIX, SIX, PUT_SCALES, SCALES_IN_TURN, JOIN_SIX)
    barrier();
    // What is not certified stands where the result will, as it is.
    [[unroll]] for (uint matrix = 0u; matrix < SUMS; ++matrix) {
        SUBGROUP_BARRIER
        STORE_FLOATS(lines, own_space, totals[matrix], 4u)
        SUBGROUP_BARRIER
        [[unroll]] for (uint each = 0u; each < 8u; ++each) {
            uint row = position.first_row + MATRIX_ROW(matrix) + ROW_OF(each);
            uint column = position.first_column + MATRIX_COLUMN(matrix) + LANE % 16u;
            if (row < parameters.rows && column < parameters.columns) {
                uint sum = ELEMENT(each);
                bool is_result = (mask & OWN_BIT(matrix, each)) == 0u;
                words_output[output_index(position.batch, row, column)] = is_result ? finished(position.batch, sum, row, column) : sum;
            }
        }
    }
#endif
    uint count = count_of_all(own, mask);
    if (own == 0u) { words_rest[REST_COUNT(group)] = count; }
    if (count > 0u) { words_rest[REST_MASK(group, own)] = mask; }
}
