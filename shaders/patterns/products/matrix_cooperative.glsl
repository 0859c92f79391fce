// Tiles of results for those who permit a device its own arithmetic: matrices that a subgroup holds together (cooperative_floats.glsl)
// are multiplied by one instruction, and their sums are FLOAT32.
//
// FLOAT16 operands are multiplied as they are. FLOAT32 operands are made of three numbers of 8 bits (bfloat16) each, x = x1 + x2 + x3 exactly,
// but for what lies below 2^-126. Six of their nine products are added up, so that a product lacks at most 2^-23 of itself: G. Henry,
// P. T. P. Tang, A. Heinecke, Leveraging the bfloat16 artificial intelligence datatype for higher-precision computations, ARITH 2019.
// Sixteen terms are added up by the device, the small products first, and what comes of it is added to the sums. Sums that might overflow
// on their way are computed in their order, by exact_sum.
//
// GEMM's operands can be loaded by eights, or there are other kernels. Convolutions are of FLOAT16.
//
// A work group has a tile of TILE_ROWS x TILE_COLUMNS results, of which each of its subgroups computes RESULT_ROWS x RESULT_COLUMNS.
// Operands go through shared memory as they are, STEP_TERMS terms at once: while they are multiplied, those that follow are on their way to
// registers. SEGMENT terms are added up by the device, in whichever order and however it rounds; segments as in matrix.glsl.
//
// Its buffers are not `coherent`: it runs only where barriers are recorded between dispatches (dmlvk/kernels/target.py).
//
// The compile script passes TILE_ROWS, TILE_COLUMNS, STEP_TERMS, RESULT_ROWS, RESULT_COLUMNS, SEGMENT and INVOCATIONS; for
// convolutions that is a multiple of TILE_COLUMNS.

#include "cooperative_floats.glsl"
#define coherent
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
// Whether an operand is loaded by eights everywhere, and there are as many rows or columns as a tile has: a tile at the edge is moved
// inwards, and what another one has, too, is computed twice.
layout(constant_id = 38) const bool LEFT_IS_WHOLE = false;
layout(constant_id = 39) const bool RIGHT_IS_WHOLE = false;
layout(constant_id = 40) const uint CHANNELS_OF_POSITION = 1u;
#define INNER_CHANNELS CHANNELS_OF_POSITION
// Whether sums are results: Alpha is 1, and nothing is added or applied.
layout(constant_id = 41) const bool RESULTS_ARE_SUMS = false;
// Whether the terms of every segment are whole steps.
layout(constant_id = 42) const bool STEPS_ARE_WHOLE = false;
// How many elements lie from line to line of an operand, as its neighbours lie in memory; 0: the launch tells.
layout(constant_id = 50) const uint LEFT_LINE = 0u;
layout(constant_id = 51) const uint RIGHT_LINE = 0u;
#include "products/matrix.glsl"
#include "products/matrix_groups.glsl"
#include "products/read_operands.glsl"

layout(local_size_x = INVOCATIONS) in;

#define SUBGROUPS (INVOCATIONS / SUBGROUP_INVOCATIONS)
#define SUBGROUPS_ACROSS (TILE_COLUMNS / RESULT_COLUMNS)
#define SUMS_DOWN (RESULT_ROWS / MATRIX_ROWS)
#define SUMS_ACROSS (RESULT_COLUMNS / MATRIX_COLUMNS)

// Eight numbers of 16 bits are a vector. An operand's tile lies in lines of terms or of rows or columns, as its neighbours in memory do; a
// vector behind each line moves what is loaded together to other banks.
#define STEP_VECTORS (STEP_TERMS / 8)
#define ALONG_PITCH (STEP_VECTORS + 1)
#define LEFT_ACROSS_PITCH (TILE_ROWS / 8 + 1)
#define RIGHT_ACROSS_PITCH (TILE_COLUMNS / 8 + 1)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define LEFT_SPACE LARGER(TILE_ROWS * ALONG_PITCH, STEP_TERMS * LEFT_ACROSS_PITCH)
#define RIGHT_SPACE LARGER(TILE_COLUMNS * ALONG_PITCH, STEP_TERMS * RIGHT_ACROSS_PITCH)
// In the end each subgroup's results, MATRIX_ROWS at a time.
#define RESULT_FOURS (RESULT_COLUMNS / 4)
#define RESULT_PITCH (RESULT_FOURS + 1)
#define RESULTS_SPACE (SUBGROUPS * MATRIX_ROWS * RESULT_PITCH)
#define TILES_SPACE (LEFT_SPACE + RIGHT_SPACE)
#if OPERAND_BITS == 32
#define PARTS 3 // each operand's first parts, then the second ones, then the third ones
shared uint left_highest; // the largest magnitudes of the tiles' operands
shared uint right_highest;
#else
#define PARTS 1
#endif
shared uvec4 lines[LARGER(PARTS * TILES_SPACE, RESULTS_SPACE)];
#if CONVOLUTION
// Of the terms that are loaded next: computed once, and not by each of the columns.
shared uvec4 term_positions[STEP_TERMS];
#endif

// Whether lines of the right operand's tile are rows. Of a convolution they are where windows have one place each and eight columns lie
// behind one another in the input.
#if CONVOLUTION
#define RIGHT_IS_ACROSS RIGHT_HAS_VECTORS
#else
#define RIGHT_IS_ACROSS (!RIGHT_ALONG_TERMS)
#endif

#define LEFT_LOADS (TILE_ROWS * STEP_VECTORS / INVOCATIONS)
#define RIGHT_LOADS (TILE_COLUMNS * STEP_VECTORS / INVOCATIONS)

// The first row and term of the eight elements that an invocation loads first, and how far those lie from them that it loads next.
uvec2 left_position(uint own) {
    return LEFT_ALONG_TERMS ? uvec2(own / STEP_VECTORS, own % STEP_VECTORS * 8u) : uvec2(own % (TILE_ROWS / 8) * 8u, own / (TILE_ROWS / 8));
}
#define LEFT_STEP (LEFT_ALONG_TERMS ? uvec2(INVOCATIONS / STEP_VECTORS, 0u) : uvec2(0u, INVOCATIONS / (TILE_ROWS / 8)))
// The same for columns and terms.
uvec2 right_position(uint own) {
    uvec2 across = uvec2(own % (TILE_COLUMNS / 8) * 8u, own / (TILE_COLUMNS / 8));
#if CONVOLUTION
    return RIGHT_IS_ACROSS ? across : uvec2(own % TILE_COLUMNS, own / TILE_COLUMNS * 8u);
#else
    return RIGHT_ALONG_TERMS ? uvec2(own / STEP_VECTORS, own % STEP_VECTORS * 8u) : across;
#endif
}
#define RIGHT_STEP_ACROSS uvec2(0u, INVOCATIONS / (TILE_COLUMNS / 8))
#if CONVOLUTION
#define RIGHT_STEP (RIGHT_IS_ACROSS ? RIGHT_STEP_ACROSS : uvec2(0u, INVOCATIONS / TILE_COLUMNS * 8))
#else
#define RIGHT_STEP (RIGHT_ALONG_TERMS ? uvec2(INVOCATIONS / STEP_VECTORS, 0u) : RIGHT_STEP_ACROSS)
#endif
// Where these elements lie in shared memory.
uint left_line(uvec2 position) {
    return LEFT_ALONG_TERMS ? position.x * ALONG_PITCH + position.y / 8u : position.y * LEFT_ACROSS_PITCH + position.x / 8u;
}
uint right_line(uvec2 position) {
    return LEFT_SPACE + (RIGHT_IS_ACROSS ? position.y * RIGHT_ACROSS_PITCH + position.x / 8u : position.x * ALONG_PITCH + position.y / 8u);
}

// Eight elements as they were loaded. What lies outside of the matrix is computed with what lies at its edge, and not stored; behind the
// last term there are zeros.
#if OPERAND_BITS == 32
struct Eight {
    uvec4 low, high;
};
#define NO_EIGHT Eight(uvec4(0u), uvec4(0u))
#define EIGHT_AT(name, eight) Eight(read_##name[2u * (eight)], read_##name[2u * (eight) + 1u])
#else
struct Eight {
    uvec4 pairs;
};
#define NO_EIGHT Eight(uvec4(0u))
#define EIGHT_AT(name, eight) Eight(read_##name[eight])
#define PUT_HALF(eight, element, half) (eight).pairs[(element) >> 1u] |= (half) << (((element) & 1u) * 16u);
#endif

Eight left_eight(Batch batch, uvec2 at, uint end) {
    Eight eight = NO_EIGHT;
#if CONVOLUTION
    if (!LEFT_HAS_VECTORS) {
        [[unroll]] for (uint element = 0u; element < 8u; ++element) {
            uint row = min(at.x + (LEFT_ALONG_TERMS ? 0u : element), parameters.rows - 1u);
            uint term = at.y + (LEFT_ALONG_TERMS ? element : 0u);
            if (term < end) {
                PUT_HALF(eight, element, LOAD(OPERAND, words_left, left_index(batch, row, term)))
            }
        }
        return eight;
    }
#endif
    uint row = min(at.x, parameters.rows - (LEFT_ALONG_TERMS ? 1u : 8u));
    if (at.y < end) { eight = EIGHT_AT(left, left_index(batch, row, at.y) >> 3u); }
    return eight;
}

#if CONVOLUTION
// Eight terms of the window of an invocation's column; what pads it is zero. Or eight columns of a term.
Eight right_eight(Column own, uint beginning, uint position) {
    Eight eight = NO_EIGHT;
    if (RIGHT_IS_ACROSS) {
        uint index = index_of_term(own, beginning, term_positions[position]);
        if (index != NOWHERE) { eight = EIGHT_AT(right, index >> 3u); }
        return eight;
    }
    if (INNER_CHANNELS != 1u) { // eight channels of one place
        uint index = index_of_term(own, beginning, term_positions[position]);
        if (index != NOWHERE) {
            [[unroll]] for (uint element = 0u; element < 8u; ++element) {
                PUT_HALF(eight, element, LOAD(OPERAND, words_right, index + element * parameters.input_channel))
            }
        }
        return eight;
    }
    [[unroll]] for (uint element = 0u; element < 8u; ++element) {
        uint index = index_of_term(own, beginning, term_positions[position + element]);
        if (index != NOWHERE) {
            PUT_HALF(eight, element, LOAD(OPERAND, words_right, index))
        }
    }
    return eight;
}
#elif defined(RIGHT_IS_PACKED)
#include "products/packed_right.glsl"
PackedEight right_eight(Batch batch, uvec2 at, uint end) {
    PackedEight eight = NO_PACKED_EIGHT;
    if (at.y < end) { eight = packed_eight(min(at.x, parameters.columns - 1u), at.y); }
    return eight;
}
#else
Eight right_eight(Batch batch, uvec2 at, uint end) {
    Eight eight = NO_EIGHT;
    uint column = min(at.x, parameters.columns - (RIGHT_ALONG_TERMS ? 1u : 8u));
    if (at.y < end) { eight = EIGHT_AT(right, right_index(column_at(batch, column), at.y) >> 3u); }
    return eight;
}
#endif
#if !CONVOLUTION
// Whether columns 4n to 4n + 3 of the output lie behind one another, at multiples of four elements.
layout(constant_id = 11) const bool OUTPUT_HAS_FOURS = false;
#endif
#ifdef RIGHT_IS_PACKED
#define RightEight PackedEight
#define RIGHT_EIGHT_AT(eight) NO_PACKED_EIGHT // never: RIGHT_IS_WHOLE is not told
#define PUT_RIGHT_EIGHT(at, eight, highest) lines[at] = numbers_of(eight);
#else
#define RightEight Eight
#define RIGHT_EIGHT_AT(eight) EIGHT_AT(right, eight)
#define PUT_RIGHT_EIGHT PUT_EIGHT
#endif

// Four neighbouring results, two in a word where they are FLOAT16.
#if OPERAND_BITS == 32
#define Results uvec4
#define NO_RESULTS uvec4(0u)
#define fours_of_results fours_output
#define PUT_RESULT(results, part, result) (results)[part] = result;
#define RESULT_OF_NUMBER(sum) as_result(uintBitsToFloat(sum))
#else
#define Results uvec2
#define NO_RESULTS uvec2(0u)
#define fours_of_results pairs_output
#define PUT_RESULT(results, part, result) (results)[(part) >> 1u] |= (result) << (((part) & 1u) * 16u);
#define RESULT_OF_NUMBER(sum) float16_from_number(sum)
#endif

// Stores so many of four neighbouring results.
void store_four(Batch batch, Results results, uint count, uint row, uint column) {
#if !CONVOLUTION
    if (OUTPUT_HAS_FOURS) {
        if (count == 4u) { fours_of_results[output_index(batch, row, column) >> 2u] = results; }
        return;
    }
#endif
#if OPERAND_BITS == 32
    for (uint part = 0u; part < count; ++part) { store_result(batch, results[part], row, column + part); }
#else
    if (OUTPUT_HAS_PAIRS) {
        for (uint part = 0u; part < count; part += 2u) {
            words_output[output_index(batch, row, column + part) >> 1u] = results[part >> 1u];
        }
        return;
    }
    for (uint part = 0u; part < count; ++part) {
        uint result = results[part >> 1u] >> ((part & 1u) * 16u);
        store_result(batch, result, row, column + part);
    }
#endif
}

#if OPERAND_BITS == 32
// is_complete for a sum that the device may not add up as it likes: in the order of matrix.glsl, which decides whether it overflows.
bool is_complete_in_order(Batch batch, inout uint sum, uint row, uint column, uint segment) {
    uint index = WRITES_TOTALS ? batch.results + row * parameters.columns + column : output_index(batch, row, column);
    bool follows = SEGMENTS_COME == SEQUENTIAL && segment > 0u;
    uint total = follows ? words_output[index] : 0u;
    uint end = min((segment + 1u) * SEGMENT, parameters.terms);
    for (uint first = segment * SEGMENT; first < end; first += SEGMENT_IN_ORDER) {
        uint next = exact_sum(batch, row, column, first, min(first + SEGMENT_IN_ORDER, end));
        total = follows ? sum_plus(total, next) : next;
        follows = true;
    }
    sum = total;
    if (SEGMENTS_COME == ONE_SEGMENT || (!WRITES_TOTALS && segment + 1u == SEGMENTS)) { return true; }
    words_output[index] = total;
    return false;
}
#endif

// Whether a segment's sum completes the total, and is to be finished: then `sum` is the total. `is_plain`: no operand is so large that
// sums might overflow.
bool completes(Batch batch, inout uint sum, bool is_plain, uint row, uint column, uint segment) {
#if OPERAND_BITS == 32
    if (!is_plain || !is_finite(uintBitsToFloat(sum))) { // the parts of what is not finite are not, either
        return is_complete_in_order(batch, sum, row, column, segment);
    }
#elif CONVOLUTION
    if (!is_finite(uintBitsToFloat(sum))) { // an infinite weight may have met padding
        sum = exact_sum(batch, row, column, segment * SEGMENT, min(segment * SEGMENT + SEGMENT, parameters.terms));
    }
#endif
    return is_complete(batch, sum, row, column, segment);
}

#if OPERAND_BITS == 16 && !CONVOLUTION
#include "products/quick_results.glsl"
#endif

// What is done with four neighbouring sums of a segment.
void deliver(Batch batch, uvec4 sums, bool is_plain, uint row, uint column, uint segment) {
    Results results = NO_RESULTS;
    uint count = 0u;
    if (RESULTS_ARE_SUMS && SEGMENTS_COME == ONE_SEGMENT && is_plain && column + 3u < parameters.columns) {
        vec4 four = uintBitsToFloat(sums);
        if (is_finite(four.x) && is_finite(four.y) && is_finite(four.z) && is_finite(four.w)) {
            [[unroll]] for (uint part = 0u; part < 4u; ++part) {
                PUT_RESULT(results, part, RESULT_OF_NUMBER(sums[part]))
            }
            store_four(batch, results, 4u, row, column);
            return;
        }
    }
    [[unroll]] for (uint part = 0u; part < 4u; ++part) {
        if (column + part < parameters.columns) {
            uint sum = sums[part];
            if (completes(batch, sum, is_plain, row, column + part, segment)) {
                PUT_RESULT(results, part, finished(batch, sum, row, column + part))
                ++count;
            }
        }
    }
    store_four(batch, results, count, row, column);
}

#include "products/cooperative_loads.glsl"

#if OPERAND_BITS == 32
// The parts of four operands, two in a word. What is left of each has 16 bits, and then 8: nothing is rounded but the first part.
struct Parts {
    uvec2 first, second, third;
};
#define UPPER_HALF 0xffff0000u
uvec2 in_pairs(uvec4 parts) { return parts.xz >> 16u | parts.yw; }
Parts parts_of(uvec4 bits) {
    uvec4 first = (bits + 0x8000u) & UPPER_HALF;
    precise vec4 left = uintBitsToFloat(bits) - uintBitsToFloat(first);
    uvec4 second = floatBitsToUint(left) & UPPER_HALF;
    precise vec4 third = left - uintBitsToFloat(second);
    return Parts(in_pairs(first), in_pairs(second), in_pairs(floatBitsToUint(third) & UPPER_HALF));
}
uint highest_of_four(uvec4 bits) {
    uvec4 magnitudes = bits & MAGNITUDE_F32;
    return max(max(magnitudes.x, magnitudes.y), max(magnitudes.z, magnitudes.w));
}
#define PUT_EIGHT(at, eight, highest) \
    { \
        Parts low = parts_of((eight).low); \
        Parts high = parts_of((eight).high); \
        highest = max(highest, max(highest_of_four((eight).low), highest_of_four((eight).high))); \
        lines[at] = uvec4(low.first, high.first); \
        lines[(at) + TILES_SPACE] = uvec4(low.second, high.second); \
        lines[(at) + 2u * TILES_SPACE] = uvec4(low.third, high.third); \
    }
// Whether no sum of such products overflows on its way: with |a| < 2^(e - 126) and |b| < 2^(f - 126) it is less than 2^127.
bool is_bounded(uint left, uint right, uint terms) { return (left >> 23u) + (right >> 23u) + uint(findMSB(terms)) + 1u <= 379u; }
#else
#define PUT_EIGHT(at, eight, highest) lines[at] = (eight).pairs;
#endif
#define PUT_TILES \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        PUT_EIGHT(left_at + i * left_line(LEFT_STEP), from_left[i], own_left_highest) \
    } \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        PUT_RIGHT_EIGHT(right_at + i * (right_line(RIGHT_STEP) - LEFT_SPACE), from_right[i], own_right_highest) \
    }

#define LOAD_LEFT_MATRIX(matrix, part, i, k) \
    if (LEFT_ALONG_TERMS) { \
        uint at = part * TILES_SPACE + (first_row + i * LEFT_SIDE) * ALONG_PITCH + k * 2u; \
        LOAD_LEFT_FLOATS(matrix, lines, at, BY_ROWS, ALONG_PITCH) \
    } else { \
        uint at = part * TILES_SPACE + k * SIDE * LEFT_ACROSS_PITCH + (first_row + i * LEFT_SIDE) / 8u; \
        LOAD_LEFT_FLOATS(matrix, lines, at, BY_COLUMNS, LEFT_ACROSS_PITCH) \
    }
#define LOAD_RIGHT_MATRIX(matrix, part, j, k) \
    if (!RIGHT_IS_ACROSS) { \
        uint at = part * TILES_SPACE + LEFT_SPACE + (first_column + j * RIGHT_SIDE) * ALONG_PITCH + k * 2u; \
        LOAD_RIGHT_FLOATS(matrix, lines, at, BY_COLUMNS, ALONG_PITCH) \
    } else { \
        uint at = part * TILES_SPACE + LEFT_SPACE + k * SIDE * RIGHT_ACROSS_PITCH + (first_column + j * RIGHT_SIDE) / 8u; \
        LOAD_RIGHT_FLOATS(matrix, lines, at, BY_ROWS, RIGHT_ACROSS_PITCH) \
    }
#if OPERAND_BITS == 32
// Parts whose numbers add up to so much belong together: the smallest products come first.
#define MULTIPLY \
    [[unroll]] for (uint k = 0u; k < STEP_TERMS / 16; ++k) { \
        LEFT_FLOATS a[PARTS * SUMS_DOWN]; \
        [[unroll]] for (uint i = 0u; i < PARTS * SUMS_DOWN; ++i) { \
            LOAD_LEFT_MATRIX(a[i], (i / SUMS_DOWN), (i % SUMS_DOWN), k) \
        } \
        [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) { \
            RIGHT_FLOATS b[PARTS]; \
            [[unroll]] for (uint part = 0u; part < PARTS; ++part) { \
                LOAD_RIGHT_MATRIX(b[part], part, j, k) \
            } \
            SUMS terms[SUMS_DOWN]; \
            [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) { \
                terms[i] = filled_with(0.0); \
            } \
            [[unroll]] for (uint together = PARTS; together > 0u; --together) { \
                [[unroll]] for (uint part = 0u; part < together; ++part) { \
                    [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) { \
                        terms[i] = matrices_product_plus(a[part * SUMS_DOWN + i], b[together - 1u - part], terms[i]); \
                    } \
                } \
            } \
            [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) { \
                sums[i * SUMS_ACROSS + j] = sum_of(sums[i * SUMS_ACROSS + j], terms[i]); \
            } \
        } \
    }
#else
#define MULTIPLY \
    [[unroll]] for (uint k = 0u; k < STEP_TERMS / 16; ++k) { \
        LEFT_FLOATS a[SUMS_DOWN]; \
        [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) { \
            LOAD_LEFT_MATRIX(a[i], 0u, i, k) \
        } \
        [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) { \
            RIGHT_FLOATS b; \
            LOAD_RIGHT_MATRIX(b, 0u, j, k) \
            [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) { \
                sums[i * SUMS_ACROSS + j] = matrices_product_plus(a[i], b, sums[i * SUMS_ACROSS + j]); \
            } \
        } \
    }
#endif

void main() {
    WORK_GROUP(group)
    Position position = position_of(group);
    uint own = index_in_group();
    uint first_row = SUBGROUP / SUBGROUPS_ACROSS * RESULT_ROWS;
    uint first_column = SUBGROUP % SUBGROUPS_ACROSS * RESULT_COLUMNS;
    uvec2 left_own = left_position(own);
    uvec2 right_own = right_position(own);
    uint left_at = left_line(left_own);
    uint right_at = right_line(right_own);
    uint tile_row = LEFT_IS_WHOLE ? min(position.first_row, parameters.rows - TILE_ROWS) : position.first_row;
    uint tile_column = RIGHT_IS_WHOLE ? min(position.first_column, parameters.columns - TILE_COLUMNS) : position.first_column;
#if CONVOLUTION
    uint last_column = parameters.columns - (RIGHT_IS_ACROSS ? 8u : 1u);
    Column own_column = column_at(position.batch, min(position.first_column + right_own.x, last_column));
    uint own_beginning = beginning_of(own_column);
#endif
    Eight from_left[LEFT_LOADS];
    RightEight from_right[RIGHT_LOADS];
    SUMS sums[SUMS_DOWN * SUMS_ACROSS];
    for (uint segment = position.first_segment; segment < position.end_segment; ++segment) {
        uint first = segment * SEGMENT;
        uint end = min(first + SEGMENT, parameters.terms);
        [[unroll]] for (uint i = 0u; i < SUMS_DOWN * SUMS_ACROSS; ++i) {
            sums[i] = filled_with(0.0);
        }
        uint left_next = left_index(position.batch, tile_row + left_own.x, first + left_own.y) >> 3u;
#if CONVOLUTION
        uint right_next = 0u;
#else
        uint right_next = right_index(column_at(position.batch, tile_column + right_own.x), first + right_own.y) >> 3u;
#endif
        uint left_last = left_next + (end - first - STEP_TERMS) / STEP_TERMS * LEFT_STEP_EIGHTS;
        uint right_last = right_next + (end - first - STEP_TERMS) / STEP_TERMS * RIGHT_STEP_EIGHTS;
#if CONVOLUTION
        POSITION_TERMS(first)
        barrier();
#endif
#if OPERAND_BITS == 32
        uint own_left_highest = 0u;
        uint own_right_highest = 0u;
        if (own == 0u) {
            left_highest = 0u;
            right_highest = 0u;
        }
#endif
        {
            LOAD_TILES(first)
        }
        for (uint term = first; term < end; term += STEP_TERMS) {
            barrier(); // all are through with what was there
            PUT_TILES
            POSITION_TERMS(term + STEP_TERMS)
            barrier();
            LOAD_NEXT_TILES(term + STEP_TERMS)
            MULTIPLY
        }
        bool is_plain = true;
#if OPERAND_BITS == 32
        atomicMax(left_highest, own_left_highest);
        atomicMax(right_highest, own_right_highest);
        barrier();
        is_plain = is_bounded(left_highest, right_highest, parameters.terms);
#endif
#if OPERAND_BITS == 16 && !CONVOLUTION
        if (SEGMENTS_COME == ONE_SEGMENT && OUTPUT_HAS_FOURS) {
            DELIVER_QUICKLY
            return;
        }
#endif
        [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) {
            barrier();
            [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) {
                uint at = SUBGROUP * LEFT_SIDE * RESULT_PITCH + j * (RIGHT_SIDE / 4u);
                STORE_SUMS(lines, at, sums[i * SUMS_ACROSS + j], RESULT_PITCH)
            }
            barrier();
            for (uint number = own; number < SUBGROUPS * LEFT_SIDE * RESULT_FOURS; number += INVOCATIONS) {
                uint subgroup = number / (LEFT_SIDE * RESULT_FOURS);
                uint line = number / RESULT_FOURS; // of all subgroups
                uint four = number % RESULT_FOURS;
                uint row = tile_row + subgroup / SUBGROUPS_ACROSS * RESULT_ROWS + i * LEFT_SIDE + line % LEFT_SIDE;
                uint column = tile_column + subgroup % SUBGROUPS_ACROSS * RESULT_COLUMNS + four * 4u;
                bool is_own = row >= position.first_row && column >= position.first_column;
                if (is_own && row < parameters.rows && column < parameters.columns) {
                    deliver(position.batch, lines[line * RESULT_PITCH + four], is_plain, row, column, segment);
                }
            }
        }
    }
}
