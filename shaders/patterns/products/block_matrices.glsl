// Products of few rows with packed weights of FLOAT16, for those who permit a device its own arithmetic: what a part of the terms gives, by
// matrices that a subgroup holds together (cooperative_floats.glsl). A left matrix has 16 columns of weights and 16 of their terms, a right
// one the same terms of 16 rows.
//
// Weights are read once, at the speed of memory, and are made numbers where they are multiplied: an invocation loads 32 of a column at once,
// and these are its elements of eight matrices, on devices whose matrices lie in quads (cooperative_quads.glsl). So matrices have terms in
// an order of their own, in which those of the rows are put into shared memory (after Marlin: E. Frantar et al., "MARLIN: mixed-precision
// auto-regressive parallel inference on large language models", 2024, whose weights are put into such an order beforehand). On other
// devices weights go through shared memory.
//
// A work group has COLUMN_MATRICES * 16 columns for each of its subgroups, all rows (ROW_MATRICES * 16), and PART_TERMS terms, STAGE of them
// at once. While they are multiplied, those that follow are on their way to registers; rows of two stages lie in shared memory. Sums of parts
// go to memory, to be added (block_totals.glsl).
//
// With SPLITS_TERMS, which there is without a gate, a work group has all terms of COLUMN_MATRICES * 16 columns and of up to 8 rows. Each of
// its subgroups has every SUBGROUPS-th stage, and it adds their sums itself: nothing goes to memory but results.
//
// Its buffers are not `coherent`: it runs only where barriers are recorded between dispatches (dmlvk/kernels/target.py).
//
// Columns lie at multiples of 16 bytes, parts are whole stages, blocks whole 32 terms, and rows are loaded by eights. The compile script
// passes COLUMN_MATRICES, ROW_MATRICES, SUBGROUPS, HALF_ARITHMETIC and what block_products.glsl is passed.

#define INVOCATIONS (32 * SUBGROUPS)
#include "cooperative_floats.glsl"
#include "cooperative_quads.glsl"
#define coherent
#ifndef SPLITS_TERMS
#define MAKES_PARTS
#endif
#include "products/block_products.glsl"

layout(local_size_x = INVOCATIONS) in;

// As vectors that nobody writes: products/read_operands.glsl.
layout(std430, set = 0, binding = 0) readonly buffer ReadOnly_left { uvec4 read_left[]; };
layout(std430, set = 0, binding = 1) readonly buffer ReadOnly_packed { uvec4 read_packed[]; };
#ifdef IS_GATED
layout(std430, set = 0, binding = 5) readonly buffer ReadOnly_packed_up { uvec4 read_packed_up[]; };
#endif

#define STAGE 128u
#define STAGE_VECTORS 16u // of eight FLOAT16
#define PITCH 17u // one vector more moves what is loaded together to other banks
#define ROWS (16u * ROW_MATRICES)
#ifdef SPLITS_TERMS
#define STORED_ROWS 8u // behind them a matrix has whatever follows
#define LOADING 32u // invocations that share rows
#define STAGES_BESIDE SUBGROUPS
#define SPACES SUBGROUPS
#else
#define STORED_ROWS ROWS
#define LOADING INVOCATIONS
#define STAGES_BESIDE 1u
#define SPACES 2u
#endif
#define ROWS_SPACE (STORED_ROWS * PITCH)
#define ALL_ROWS_SPACE (SPACES * ROWS_SPACE + (ROWS - STORED_ROWS) * PITCH)
#define LEFT_LOADS ((STORED_ROWS * STAGE_VECTORS + LOADING - 1u) / LOADING)
#define LINES (2u * COLUMN_MATRICES) // an invocation's columns of weights
#define SUMS_PITCH 5u
#ifdef SPLITS_TERMS
#define SUMS_SPACE (SUBGROUPS * COLUMN_MATRICES * 16u * SUMS_PITCH)
#else
#define SUMS_SPACE (SUBGROUPS * 16u * SUMS_PITCH)
#endif
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
shared uvec4 lines[LARGER(ALL_ROWS_SPACE, SUMS_SPACE)];
// Sixteen columns' weights of a matrix, where they have to be exchanged.
shared uvec4 weight_lines[MATRICES_LIE_IN_QUADS ? 1 : SUBGROUPS * 16 * 3];

// The columns that a subgroup has in a matrix begin here; with a gate, every other matrix has those of the gate.
#ifdef SPLITS_TERMS
#define SUBGROUPS_ACROSS 1u
#define SUBGROUP_ACROSS 0u
#else
#define SUBGROUPS_ACROSS SUBGROUPS
#define SUBGROUP_ACROSS SUBGROUP
#endif
#ifdef IS_GATED
#define GROUP_COLUMNS (SUBGROUPS_ACROSS * COLUMN_MATRICES * 8u)
#define FIRST_COLUMN(matrix) (first_column + (SUBGROUP_ACROSS * (COLUMN_MATRICES / 2u) + (matrix) / 2u) * 16u)
#define PACKED_VECTOR(matrix, index) \
    (IS_UP(matrix) ? read_packed_up[(BASE_WORD(packed_up) >> 2u) + (index)] : read_packed[(BASE_WORD(packed) >> 2u) + (index)])
#else
#define GROUP_COLUMNS (SUBGROUPS_ACROSS * COLUMN_MATRICES * 16u)
#define FIRST_COLUMN(matrix) (first_column + (SUBGROUP_ACROSS * COLUMN_MATRICES + (matrix)) * 16u)
#define PACKED_VECTOR(matrix, index) read_packed[(BASE_WORD(packed) >> 2u) + (index)]
#endif
#define COLUMN(line) min(FIRST_COLUMN((line) / 2u) + LANE / 4u + (line) % 2u * 8u, parameters.columns - 1u)

// What an invocation loads of a stage: 32 weights of each of its columns, with their scale and zero, and eight terms of rows. What stands in
// main() as it is: arrays that functions share are kept in memory by some drivers.
#define LOAD_STAGE(term) \
    [[unroll]] for (uint i = 0u; i < LINES; ++i) { \
        uint own_term = (term) + LANE % 4u * 32u; \
        loaded[i] = PACKED_VECTOR(i / 2u, (COLUMN(i) * PACKED_COLUMN + own_term) / 32u); \
        loaded_scales[i] = SCALE_AT(i / 2u, scale_index(COLUMN(i), own_term)); \
        loaded_zeros[i] = ZERO_AT(i / 2u, zero_index(COLUMN(i), own_term)); \
    } \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        loaded_left[i] = read_left[left_index(min(LEFT_ROW(i), parameters.rows - 1u), (term) + LEFT_EIGHT * 8u) >> 3u]; \
    }
#define LEFT_ROW(i) ((i) * (LOADING / STAGE_VECTORS) + invocation % LOADING / STAGE_VECTORS)
#define LEFT_EIGHT (invocation % STAGE_VECTORS)

// Eight neighbouring terms of a row, in the order that weights have. Of the 128 terms of a stage, an invocation of a quad has 32, a word has
// eight of them, and two matrices four each: the word's integers 0, 4, 1 and 5, and then 2, 6, 3 and 7.
#define PUT_ROWS(space) \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        if (STORED_ROWS * STAGE_VECTORS % LOADING == 0u || LEFT_ROW(i) < STORED_ROWS) { \
            uint at = (space) * ROWS_SPACE + LEFT_ROW(i) * PITCH + LEFT_EIGHT % 4u * 4u; \
            uvec4 eight = loaded_left[i]; \
            lines[at][LEFT_EIGHT / 4u] = eight.x & 0xffffu | eight.z << 16u; \
            lines[at + 1u][LEFT_EIGHT / 4u] = eight.x >> 16u | eight.z & 0xffff0000u; \
            lines[at + 2u][LEFT_EIGHT / 4u] = eight.y & 0xffffu | eight.w << 16u; \
            lines[at + 3u][LEFT_EIGHT / 4u] = eight.y >> 16u | eight.w & 0xffff0000u; \
        } \
    }

// Two pairs of weights of a word, of its integers 2 * side and 4 behind it, and of the next ones. An integer less another one is exact, and
// its product with the scale is rounded once, as DEQUANTIZE rounds it.
#define WEIGHT_PAIRS(pairs, word, entry, side) \
    { \
        uint moved = FLIPPED(word) >> ((side) * 8u); \
        float zero = uintBitsToFloat((entry).y) + HALF_RANGE; \
        if (MULTIPLIES_HALVES) { \
            f16vec2 scale = unpackFloat2x16((entry).x); \
            precise f16vec2 low = unpackFloat2x16(moved & 0x000f000fu | 0x64006400u) - f16vec2(float16_t(1024.0 + zero)); \
            precise f16vec2 high = unpackFloat2x16(moved & 0x00f000f0u | 0x54005400u) - f16vec2(float16_t(64.0 + zero)); \
            precise f16vec2 low_products = low * scale; \
            precise f16vec2 high_products = high * scale; \
            pairs = uvec2(packFloat2x16(low_products), packFloat2x16(high_products)); \
        } else { \
            vec4 integers = vec4(ivec4(uvec4(moved, moved >> 16u, moved >> 4u, moved >> 20u) & 15u)); \
            precise vec4 differences = integers - zero; \
            precise vec4 products = differences * uintBitsToFloat((entry).x); \
            uvec4 rounded = floatBitsToUint(products); \
            pairs.x = float16_from_number(rounded.x) | float16_from_number(rounded.y) << 16u; \
            pairs.y = float16_from_number(rounded.z) | float16_from_number(rounded.w) << 16u; \
        } \
    }
#define WEIGHT_MATRIX(weights, upper, lower) \
    if (MATRICES_LIE_IN_QUADS) { \
        LEFT_OF_PAIRS(weights, upper, lower) \
    } else { \
        uint at = SUBGROUP * 48u + LANE / 4u * 3u; \
        SUBGROUP_BARRIER \
        weight_lines[at][LANE % 4u] = upper.x; \
        weight_lines[at + 1u][LANE % 4u] = upper.y; \
        weight_lines[at + 24u][LANE % 4u] = lower.x; \
        weight_lines[at + 25u][LANE % 4u] = lower.y; \
        SUBGROUP_BARRIER \
        LOAD_LEFT_FLOATS(weights, weight_lines, SUBGROUP * 48u, BY_ROWS, 3u) \
    }

#define MULTIPLY(space) \
    [[unroll]] for (uint word = 0u; word < 4u; ++word) { \
        [[unroll]] for (uint side = 0u; side < 2u; ++side) { \
            RIGHT_FLOATS rows[ROW_MATRICES]; \
            [[unroll]] for (uint j = 0u; j < ROW_MATRICES; ++j) { \
                uint at = (space) * ROWS_SPACE + j * 16u * PITCH + (2u * word + side) * 2u; \
                LOAD_RIGHT_FLOATS(rows[j], lines, at, BY_COLUMNS, PITCH) \
            } \
            [[unroll]] for (uint matrix = 0u; matrix < COLUMN_MATRICES; ++matrix) { \
                uvec2 upper, lower; \
                WEIGHT_PAIRS(upper, words[2u * matrix][word], entry[2u * matrix], side) \
                WEIGHT_PAIRS(lower, words[2u * matrix + 1u][word], entry[2u * matrix + 1u], side) \
                LEFT_FLOATS weights; \
                WEIGHT_MATRIX(weights, upper, lower) \
                [[unroll]] for (uint j = 0u; j < ROW_MATRICES; ++j) { \
                    sums[matrix * ROW_MATRICES + j] = matrices_product_plus(weights, rows[j], sums[matrix * ROW_MATRICES + j]); \
                } \
            } \
        } \
    }

#ifdef SPLITS_TERMS
// A result of a column of a work group, whose sums lie in shared memory.
uint result_at(uint row, uint first, uint column) {
    precise float total = 0.0;
    [[unroll]] for (uint subgroup = 0u; subgroup < SUBGROUPS; ++subgroup) {
        uint at = ((subgroup * COLUMN_MATRICES + column / 16u) * 16u + column % 16u) * SUMS_PITCH + row / 4u;
        total = total + uintBitsToFloat(lines[at][row % 4u]);
    }
    uint sum = is_finite(total) ? floatBitsToUint(total) : exact_sum(row, first + column, 0u, 0u, parameters.terms);
    return finished(sum, row, first + column);
}
void store_pair(uint row, uint first, uint column) {
    uint result = result_at(row, first, column);
    if (first + column + 1u >= parameters.columns) {
        STORE(OPERAND_BITS, words_output, output_index(row, first + column), result);
        return;
    }
    uint next = result_at(row, first, column + 1u);
    if (OUTPUT_HAS_PAIRS) {
        words_output[output_index(row, first + column) >> 1u] = result | next << 16u;
    } else {
        STORE(OPERAND_BITS, words_output, output_index(row, first + column), result);
        STORE(OPERAND_BITS, words_output, output_index(row, first + column + 1u), next);
    }
}
#endif

void main() {
    WORK_GROUP(group)
    uint invocation = index_in_group();
    uint first_column = group % parameters.column_tiles * GROUP_COLUMNS;
#ifdef SPLITS_TERMS
    uint first = SUBGROUP * STAGE;
    uint end = parameters.terms;
    uint space = SUBGROUP;
#else
    uint part = group / parameters.column_tiles;
    uint first = part * PART_TERMS;
    uint end = min(first + PART_TERMS, parameters.terms);
    uint space = 0u;
#endif
    SUMS sums[COLUMN_MATRICES * ROW_MATRICES];
    [[unroll]] for (uint i = 0u; i < COLUMN_MATRICES * ROW_MATRICES; ++i) {
        sums[i] = filled_with(0.0);
    }
    uvec4 loaded[LINES];
    uint loaded_scales[LINES], loaded_zeros[LINES];
    uvec4 loaded_left[LEFT_LOADS];
    LOAD_STAGE(first)
#ifndef SPLITS_TERMS
    PUT_ROWS(space)
#endif
    [[dont_unroll]] for (uint term = first; term < end; term += STAGES_BESIDE * STAGE) {
        uvec4 words[LINES];
        uvec2 entry[LINES];
        [[unroll]] for (uint i = 0u; i < LINES; ++i) {
            words[i] = loaded[i];
            entry[i] = entry_of(loaded_scales[i], loaded_zeros[i]);
        }
#ifdef SPLITS_TERMS
        SUBGROUP_BARRIER // all are through with the rows before
        PUT_ROWS(space)
        SUBGROUP_BARRIER
#else
        barrier(); // these rows are there, and all are through with those before
#endif
        uint next = min(term + STAGES_BESIDE * STAGE, end - STAGE); // behind the last stage it is loaded again
        LOAD_STAGE(next)
        MULTIPLY(space)
#ifndef SPLITS_TERMS
        space ^= 1u;
        PUT_ROWS(space)
#endif
    }
    barrier();
#ifdef SPLITS_TERMS
    [[unroll]] for (uint i = 0u; i < COLUMN_MATRICES; ++i) {
        STORE_SUMS(lines, (SUBGROUP * COLUMN_MATRICES + i) * 16u * SUMS_PITCH, sums[i], SUMS_PITCH)
    }
    barrier();
    for (uint item = invocation; item < GROUP_COLUMNS / 2u * parameters.rows; item += INVOCATIONS) {
        uint row = item / (GROUP_COLUMNS / 2u);
        uint column = item % (GROUP_COLUMNS / 2u) * 2u;
        if (first_column + column < parameters.columns) { store_pair(row, first_column, column); }
    }
#else
#ifdef IS_GATED
    uint line = 2u * parameters.columns; // sums of the gate first
#else
    uint line = parameters.columns;
#endif
    uint own = SUBGROUP * 16u * SUMS_PITCH;
    [[unroll]] for (uint i = 0u; i < COLUMN_MATRICES * ROW_MATRICES; ++i) {
        SUBGROUP_BARRIER
        STORE_SUMS(lines, own, sums[i], SUMS_PITCH)
        SUBGROUP_BARRIER
        uint column = FIRST_COLUMN(i / ROW_MATRICES) + LANE % 16u;
#ifdef IS_GATED
        uint place = column + i / ROW_MATRICES % 2u * parameters.columns;
#else
        uint place = column;
#endif
        uint first_row = i % ROW_MATRICES * 16u + LANE / 16u * 8u;
        [[unroll]] for (uint j = 0u; j < 8u; ++j) {
            if (column < parameters.columns && first_row + j < parameters.rows) {
                words_output[BASE_WORD(output) + (part * parameters.rows + first_row + j) * line + place] =
                    lines[own + LANE % 16u * SUMS_PITCH + LANE / 16u * 2u + j / 4u][j % 4u];
            }
        }
    }
#endif
}
