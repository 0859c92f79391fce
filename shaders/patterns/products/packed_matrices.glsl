// Products of rows of FLOAT16 with packed weights (packed_integers.glsl) by matrices of FLOAT16 that a subgroup holds together, whose sums are
// FLOAT32. Rows come as parts (packed_layout.glsl), and weights are made numbers where they are multiplied: integers less their zeros, as
// elements of left matrices of 16 columns and 16 terms; right ones have eight rows. All sums of a chunk are exact; the sum of the first two is
// a chunk's, rounded once, to which the third one is added where there are third parts.
//
// A work group has ROWS * 8 rows and ACROSS * COLUMNS * 16 columns, and PART_TERMS terms. Its subgroups have the same rows and columns of
// their own, whose weights go from memory to the registers that multiply them: an invocation has eight terms of each chunk of its lines, and
// the scale of one of STAGE chunks, while those that follow are on their way. Rows come so, too, or where ROWS_ARE_SHARED by shared memory.
// With a gate, every other matrix has its columns. With WRITES_SUMS sums of parts go to memory, to be added.
//
// Nothing is indexed but by constants that are written out: what a driver does not resolve lies in memory.
//
// Its buffers are not `coherent`: it runs only where barriers are recorded between dispatches (dmlvk/kernels/target.py).
//
// The compile script passes these names and what packed_integers.glsl is passed; each of the sizes also as a number without a suffix.
#ifndef PACKED_MATRICES_GLSL
#define PACKED_MATRICES_GLSL
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_ballot : require

#define INVOCATIONS (32 * ACROSS)
#include "cooperative_floats.glsl"
#include "cooperative_quads.glsl"
#define coherent
#define HAS_PARTS
#include "products/packed_integers.glsl"
#include "products/packed_layout.glsl"

layout(local_size_x = INVOCATIONS) in;

#ifdef IS_GATED
layout(std430, set = 0, binding = 8) readonly buffer ReadOnly_parts { uvec4 read_parts[]; };
#else
layout(std430, set = 0, binding = 5) readonly buffer ReadOnly_parts { uvec4 read_parts[]; };
#endif

// Whether there are STAGE chunks or none left, wherever a stage begins.
layout(constant_id = 20) const bool STAGES_ARE_WHOLE = false;
// Whether results are sums of parts, of FLOAT32.
layout(constant_id = 21) const bool WRITES_SUMS = false;

#define TILE_ROWS (ROWS * 8u)
#define TILE_LINES (ACROSS * COLUMNS * 16u) // of weights, those of the gate too
#define LINES ((parameters.row_tiles * TILE_ROWS + 15u) / 16u * 16u)
#define SUMS_PITCH 3u
#ifdef IS_GATED
#define SIDES 2u
#define LINE_SIDE(line) ((line) / 16u % 2u)
#define COLUMN(line) min(first_column + (line) / 32u * 16u + (line) % 16u, parameters.columns - 1u)
#else
#define SIDES 1u
#define LINE_SIDE(line) 0u
#define COLUMN(line) min(first_column + (line), parameters.columns - 1u)
#endif
#define TILE_COLUMNS (TILE_LINES / SIDES)

#define SUMS_SPACE (ACROSS * SIDES * 16u * SUMS_PITCH)
#ifdef ROWS_ARE_SHARED
#define PLANE (TILE_ROWS * PART_VECTORS) // of a chunk: one part of its rows
#define ROWS_SPACE (STAGE * PARTS * PLANE)
shared uvec4 lines[2u * ROWS_SPACE > SUMS_SPACE ? 2u * ROWS_SPACE : SUMS_SPACE];
#else
shared uvec4 lines[SUMS_SPACE];
#endif

#define EACH_1(DO) DO(0u)
#define EACH_2(DO) DO(0u) DO(1u)
#define EACH_4(DO) DO(0u) DO(1u) DO(2u) DO(3u)
#define EACH_8(DO) EACH_4(DO) DO(4u) DO(5u) DO(6u) DO(7u)
#define EACH_16(DO) EACH_8(DO) DO(8u) DO(9u) DO(10u) DO(11u) DO(12u) DO(13u) DO(14u) DO(15u)
#define EACH_32(DO) EACH_16(DO) DO(16u) DO(17u) DO(18u) DO(19u) DO(20u) DO(21u) DO(22u) DO(23u) DO(24u) DO(25u) DO(26u) DO(27u) DO(28u) \
    DO(29u) DO(30u) DO(31u)
// The same for loops in such loops: a macro does not expand in itself.
#define COLUMN_1(DO) DO(0u, 0, 1)
#define COLUMN_2(DO) COLUMN_1(DO) DO(1u, 2, 3)
#define COLUMN_4(DO) COLUMN_2(DO) DO(2u, 4, 5) DO(3u, 6, 7)
#define STAGE_1(DO) DO(0u)
#define STAGE_2(DO) DO(0u) DO(1u)
#define STAGE_4(DO) DO(0u) DO(1u) DO(2u) DO(3u)
#define ROW_1(DO) DO(0u)
#define ROW_2(DO) DO(0u) DO(1u)
#define ROW_4(DO) DO(0u) DO(1u) DO(2u) DO(3u)
#define ROW_8(DO) ROW_4(DO) DO(4u) DO(5u) DO(6u) DO(7u)
#define EACH(count, DO) CONCATENATE(EACH_, count)(DO)
#define EACH_COLUMN(DO) CONCATENATE(COLUMN_, COLUMN_COUNT)(DO)
#define EACH_STAGE(DO) CONCATENATE(STAGE_, STAGE_COUNT)(DO)
#define EACH_ROW(DO) CONCATENATE(ROW_, ROW_COUNT)(DO)

// What of a stage an invocation loads: words of its lines, and of each a scale and a zero, of chunk LANE % STAGE.
#if WEIGHT_BITS == 8
#define LANE_WORDS 2u
#define OWN_WORD(j) (LANE % 4u * 2u + (j))
#elif WEIGHT_BITS == 4
#define LANE_WORDS 1u
#define OWN_WORD(j) (LANE % 4u)
#else
#define LANE_WORDS 1u
#define OWN_WORD(j) (LANE % 4u / 2u)
#endif
// Lanes behind a chunk of 16 terms, and those behind a column's last word, have any weights: their terms are zeros.
#define WORD_OF_CHUNK(chunk, j) \
    (STAGES_ARE_WHOLE && CHUNK == 32u ? (chunk) * CHUNK_WORDS + OWN_WORD(j) \
        : min((chunk) * CHUNK_WORDS + min(OWN_WORD(j), CHUNK_WORDS - 1u), (parameters.terms - 1u) / uint(WORD_TERMS)))
#ifdef IS_GATED
#define PACKED_WORD(side, index) (IS_UP(side) ? words_packed_up[index] : words_packed[index])
#define PACKED_BASE(side) (IS_UP(side) ? BASE_WORD(packed_up) : BASE_WORD(packed))
#else
#define PACKED_WORD(side, index) words_packed[index]
#define PACKED_BASE(side) BASE_WORD(packed)
#endif
#define NEXT_CHUNK(i) (STAGES_ARE_WHOLE ? next + (i) : min(next + (i), end - 1u))
#define FIND_CHUNK(i) \
    own_words[(i) * LANE_WORDS] = WORD_OF_CHUNK(NEXT_CHUNK(i), 0u); \
    own_words[((i) + 1u) * LANE_WORDS - 1u] = WORD_OF_CHUNK(NEXT_CHUNK(i), LANE_WORDS - 1u);
#define FIND_STAGE \
    EACH_STAGE(FIND_CHUNK) \
    next_term = NEXT_CHUNK(LANE % STAGE) * CHUNK;
#define LOAD_WORD(i) \
    coming_[(i) * LANE_WORDS] = PACKED_WORD(side_, word_ + own_words[(i) * LANE_WORDS]); \
    if (LANE_WORDS > 1u) { coming_[((i) + 1u) * LANE_WORDS - 1u] = PACKED_WORD(side_, word_ + own_words[((i) + 1u) * LANE_WORDS - 1u]); }
#define LOAD_LINE(line) \
    { \
        const uint side_ = LINE_SIDE(line * 8u); \
        uint column_ = COLUMN(own_line + line * 8u + LANE / 4u); \
        uint word_ = PACKED_BASE(side_) + column_ * PACKED_COLUMN / uint(WORD_TERMS); \
        uint coming_[STAGE * LANE_WORDS]; \
        EACH_STAGE(LOAD_WORD) \
        coming_words_##line = coming_; \
        coming_scale_##line = SCALE_AT(side_, scale_index(column_, next_term)); \
        coming_zero_##line = ZERO_AT(side_, zero_index(column_, next_term)); \
    }
#define MOVE_LINE(line) \
    words_##line = coming_words_##line; \
    scale_##line = NUMBER_OF(coming_scale_##line); \
    biases_##line = biases_of(coming_zero_##line);
#define DECLARE_LINE(line) \
    uint words_##line[STAGE * LANE_WORDS], coming_words_##line[STAGE * LANE_WORDS]; \
    uint scale_##line, coming_scale_##line, biases_##line, coming_zero_##line;
#define LOAD_LINES(c, upper, lower) LOAD_LINE(upper) LOAD_LINE(lower)
#define MOVE_LINES(c, upper, lower) MOVE_LINE(upper) MOVE_LINE(lower)
#define DECLARE_LINES(c, upper, lower) DECLARE_LINE(upper) DECLARE_LINE(lower)

// Which chunks of a stage have third parts: bit 4 * r + i of chunk i and eight rows.
#define FLAG_OF(stage_first) \
    words_parts[parts_at * 4u + FLAG_AT(min((stage_first) + LANE % STAGE, CHUNKS - 1u), first_row + min(LANE / 4u, ROWS - 1u) * 8u, LINES, CHUNKS)]
#define BIT(r, chunk) (1u << 4u * (r) + (chunk))

#define ROW_VECTOR(part, chunk, r) \
    read_parts[parts_at + PART_AT(chunk, part, first_row + (r) * 8u + LANE / 4u, LINES) + LANE % 4u]
#ifdef ROWS_ARE_SHARED
#define ROW_LOADS (STAGE * PLANE / INVOCATIONS) // of each part, a whole number
#define OWN_VECTOR(i) ((i) * INVOCATIONS + invocation)
#define ROWS_AT(part, i) \
    read_parts[parts_at + PART_AT(NEXT_CHUNK(OWN_VECTOR(i) / PLANE), part, first_row, LINES) + OWN_VECTOR(i) % PLANE]
#define HAS_OWN_THIRD(i) ((coming_thirds & BIT(OWN_VECTOR(i) % PLANE / 32u, OWN_VECTOR(i) / PLANE)) != 0u)
#define LOAD_ROWS(i) \
    coming_first[i] = ROWS_AT(0u, i); \
    coming_second[i] = ROWS_AT(1u, i); \
    if (HAS_OWN_THIRD(i)) { coming_third[i] = ROWS_AT(2u, i); }
#define PUT_ROWS(i) \
    lines[space * ROWS_SPACE + OWN_VECTOR(i)] = coming_first[i]; \
    lines[space * ROWS_SPACE + STAGE * PLANE + OWN_VECTOR(i)] = coming_second[i]; \
    if (HAS_OWN_THIRD(i)) { lines[space * ROWS_SPACE + 2u * STAGE * PLANE + OWN_VECTOR(i)] = coming_third[i]; }
#define LOAD_COMING
#define MOVE_COMING
#define ROW_PARTS(part, r) lines[space * ROWS_SPACE + ((part) * STAGE + stage) * PLANE + (r) * 32u + LANE]
#else
#define LOAD_ROW(r) \
    coming_rows[PARTS * (r)] = ROW_VECTOR(0u, chunk_, r); \
    coming_rows[PARTS * (r) + 1u] = ROW_VECTOR(1u, chunk_, r); \
    if ((has_third_ & BIT(r, 0u)) != 0u) { coming_rows[PARTS * (r) + 2u] = ROW_VECTOR(2u, chunk_, r); }
#define MOVE_ROW(r) \
    rows[PARTS * (r)] = coming_rows[PARTS * (r)]; \
    rows[PARTS * (r) + 1u] = coming_rows[PARTS * (r) + 1u]; \
    rows[PARTS * (r) + 2u] = coming_rows[PARTS * (r) + 2u];
#define LOAD_COMING \
    uvec4 coming_rows[PARTS * ROWS]; \
    { \
        uint chunk_ = min(first + stage + 1u, end - 1u); \
        uint has_third_ = stage + 1u < STAGE ? thirds >> stage + 1u : coming_thirds; \
        EACH_ROW(LOAD_ROW) \
    }
#define MOVE_COMING EACH_ROW(MOVE_ROW)
#define ROW_PARTS(part, r) rows[PARTS * (r) + (part)]
#endif

// What integers of a word have too much where their bits are those of a FLOAT16 of 1024 or 64 and more: integers below 2048, exact.
uint biases_of(uint zero) {
    float moved = float(int(zero)) + HALF_RANGE;
    return packHalf2x16(vec2(1024.0 + moved, 64.0 + moved));
}

// Eight weights of a column as four pairs, in the order of packed_layout.glsl: exact.
#define WORD(line, i, j) words_##line[(i) * LANE_WORDS + (j)]
#if WEIGHT_BITS == 4
#define WEIGHT_PAIRS(pairs, line, biases) \
    { \
        uint word_ = FLIPPED(WORD(line, stage, 0u)); \
        f16vec2 both_ = unpackFloat2x16(biases); \
        uint moved_ = word_ >> 8u; \
        pairs[0] = packFloat2x16(unpackFloat2x16(word_ & 0x000f000fu | 0x64006400u) - f16vec2(both_.x)); \
        pairs[1] = packFloat2x16(unpackFloat2x16(word_ & 0x00f000f0u | 0x54005400u) - f16vec2(both_.y)); \
        pairs[2] = packFloat2x16(unpackFloat2x16(moved_ & 0x000f000fu | 0x64006400u) - f16vec2(both_.x)); \
        pairs[3] = packFloat2x16(unpackFloat2x16(moved_ & 0x00f000f0u | 0x54005400u) - f16vec2(both_.y)); \
    }
#elif WEIGHT_BITS == 8
#define WEIGHT_PAIRS(pairs, line, biases) \
    { \
        uint low_ = FLIPPED(WORD(line, stage, 0u)); \
        uint high_ = FLIPPED(WORD(line, stage, 1u)); \
        f16vec2 bias_ = f16vec2(unpackFloat2x16(biases).x); \
        pairs[0] = packFloat2x16(unpackFloat2x16(low_ & 0x00ff00ffu | 0x64006400u) - bias_); \
        pairs[1] = packFloat2x16(unpackFloat2x16(low_ >> 8u & 0x00ff00ffu | 0x64006400u) - bias_); \
        pairs[2] = packFloat2x16(unpackFloat2x16(high_ & 0x00ff00ffu | 0x64006400u) - bias_); \
        pairs[3] = packFloat2x16(unpackFloat2x16(high_ >> 8u & 0x00ff00ffu | 0x64006400u) - bias_); \
    }
#else
#define WEIGHT_PAIRS(pairs, line, biases) \
    { \
        uint word_ = FLIPPED(WORD(line, stage, 0u)) >> LANE % 2u * 16u; \
        uint eight_ = word_ & 0xffu | (word_ & 0xff00u) << 8u; \
        f16vec2 bias_ = f16vec2(unpackFloat2x16(biases).x); \
        pairs[0] = packFloat2x16(unpackFloat2x16(eight_ & 0x00030003u | 0x64006400u) - bias_); \
        pairs[1] = packFloat2x16(unpackFloat2x16(eight_ >> 2u & 0x00030003u | 0x64006400u) - bias_); \
        pairs[2] = packFloat2x16(unpackFloat2x16(eight_ >> 4u & 0x00030003u | 0x64006400u) - bias_); \
        pairs[3] = packFloat2x16(unpackFloat2x16(eight_ >> 6u & 0x00030003u | 0x64006400u) - bias_); \
    }
#endif

// A subgroup's matrices of a chunk: those of weights, then their products with each eight rows.
#define OF_CHUNK(numbers) subgroupShuffle(numbers, gl_SubgroupInvocationID / 4u * 4u + stage)
#define BIASES_OF_CHUNK(line) (ZERO_KIND == ZERO_IS_PACKED ? OF_CHUNK(biases_##line) : biases_##line)
#define MAKE_WEIGHTS(c, upper, lower) \
    { \
        uint upper_pairs[4], lower_pairs[4]; \
        WEIGHT_PAIRS(upper_pairs, upper, BIASES_OF_CHUNK(upper)) \
        WEIGHT_PAIRS(lower_pairs, lower, BIASES_OF_CHUNK(lower)) \
        LEFT_OF_PAIRS(weights[2u * (c)], uvec2(upper_pairs[0], upper_pairs[1]), uvec2(lower_pairs[0], lower_pairs[1])) \
        LEFT_OF_PAIRS(weights[2u * (c) + 1u], uvec2(upper_pairs[2], upper_pairs[3]), uvec2(lower_pairs[2], lower_pairs[3])) \
        factors[2u * (c)] = uintBitsToFloat(OF_CHUNK(scale_##upper)); \
        factors[2u * (c) + 1u] = uintBitsToFloat(OF_CHUNK(scale_##lower)); \
    }
#define MULTIPLY_PARTS(c, upper, lower) \
    { \
        SUMS high = filled_with(0.0); \
        SUMS low = filled_with(0.0); \
        high = matrices_product_plus(weights[2u * (c)], parts[0], high); \
        low = matrices_product_plus(weights[2u * (c)], parts[2], low); \
        high = matrices_product_plus(weights[2u * (c) + 1u], parts[1], high); \
        low = matrices_product_plus(weights[2u * (c) + 1u], parts[3], low); \
        values[c] = sum_of(high, low); \
    }
#define MULTIPLY_THIRD(c, upper, lower) \
    { \
        SUMS rest = filled_with(0.0); \
        rest = matrices_product_plus(weights[2u * (c)], parts[0], rest); \
        rest = matrices_product_plus(weights[2u * (c) + 1u], parts[1], rest); \
        values[c] = sum_of(values[c], rest); \
    }
#define SCALE_AND_ADD(c, upper, lower) \
    { \
        SUMS scale; \
        SUMS_OF_ROWS(scale, factors[2u * (c)], factors[2u * (c) + 1u]) \
        sums[(c) * ROWS + r_] = sum_of(sums[(c) * ROWS + r_], product_of_sums(values[c], scale)); \
    }
#define MULTIPLY_ROW(r) \
    { \
        const uint r_ = r; \
        uvec4 part_ = ROW_PARTS(0u, r); \
        RIGHT_FLOATS parts[4]; \
        RIGHT_OF_PAIRS(parts[0], part_.x, part_.y) \
        RIGHT_OF_PAIRS(parts[1], part_.z, part_.w) \
        part_ = ROW_PARTS(1u, r); \
        RIGHT_OF_PAIRS(parts[2], part_.x, part_.y) \
        RIGHT_OF_PAIRS(parts[3], part_.z, part_.w) \
        SUMS values[COLUMNS]; \
        EACH_COLUMN(MULTIPLY_PARTS) \
        if ((thirds & BIT(r, stage)) != 0u) { \
            part_ = ROW_PARTS(2u, r); \
            RIGHT_OF_PAIRS(parts[0], part_.x, part_.y) \
            RIGHT_OF_PAIRS(parts[1], part_.z, part_.w) \
            EACH_COLUMN(MULTIPLY_THIRD) \
        } \
        EACH_COLUMN(SCALE_AND_ADD) \
    }
#define MULTIPLY(number) \
    if (number == 0u || STAGES_ARE_WHOLE || first + number < end) { \
        const uint stage = number; \
        LEFT_FLOATS weights[2u * COLUMNS]; \
        float factors[2u * COLUMNS]; \
        LOAD_COMING \
        EACH_COLUMN(MAKE_WEIGHTS) \
        EACH_ROW(MULTIPLY_ROW) \
        MOVE_COMING \
    }

// Sums of segments, where there are several, lie in memory: which one it is, is not told to the driver.
#define CLEAR(i) sums[i] = filled_with(0.0);
#define ADD_SEGMENT(i) \
    { \
        precise vec4 total_ = totals[(i) + hidden] + ELEMENTS(sums[i]); \
        totals[(i) + hidden] = total_; \
        sums[i] = filled_with(0.0); \
    }
#define PUT_RESULT(i) \
    if (matrix == (i) / (SIDES * ROWS) * ROWS + (i) % ROWS) { \
        precise vec4 total_ = totals[(i) + hidden] + ELEMENTS(sums[i]); \
        SUMS result; \
        SUMS_OF(result, total_) \
        STORE_SUMS(lines, own + (i) / ROWS % SIDES * 16u * SUMS_PITCH, result, SUMS_PITCH) \
    }

// A result from sums that a subgroup has put into shared memory, column by column, those of the gate first.
uint result_at(uint own, uint row, uint column, uint first_row, uint first_column) {
    uint at = own + column * SUMS_PITCH + row / 4u;
    uint result = result_of_sums(uintBitsToFloat(lines[at][row % 4u]), first_row + row, first_column + column, 0u);
#ifdef IS_GATED
    uint up = result_of_sums(uintBitsToFloat(lines[at + 16u * SUMS_PITCH][row % 4u]), first_row + row, first_column + column, 1u);
    result = gated(result, up);
#endif
    return result;
}

void main() {
    WORK_GROUP(group)
    uint invocation = index_in_group();
    // Work groups that run at one time have the same weights.
    uint first_row = group % parameters.row_tiles * TILE_ROWS;
    uint tile = group / parameters.row_tiles;
    uint first_column = tile % parameters.column_tiles * TILE_COLUMNS;
    uint part = tile / parameters.column_tiles;
    uint first = part * (PART_TERMS / CHUNK);
    uint end = min(first + PART_TERMS / CHUNK, CHUNKS);
    uint own_line = SUBGROUP * COLUMNS * 16u;
    uint hidden = HIDDEN_ZERO;
    uint parts_at = BASE_WORD(parts) >> 2u;
    SUMS sums[COLUMNS * ROWS];
    vec4 totals[COLUMNS * ROWS];
    for (uint i = 0u; i < COLUMNS * ROWS; ++i) {
        totals[i] = vec4(0.0);
    }
    EACH(SUM_COUNT, CLEAR)
    EACH_COLUMN(DECLARE_LINES)
    uint thirds, coming_thirds, coming_flag = FLAG_OF(first);
    uint next = first;
    uint next_term, own_words[STAGE * LANE_WORDS];
    FIND_STAGE
    EACH_COLUMN(LOAD_LINES)
    BITS_OF_LANES(coming_thirds, coming_flag != 0u)
#ifdef ROWS_ARE_SHARED
    uvec4 coming_first[ROW_LOADS], coming_second[ROW_LOADS], coming_third[ROW_LOADS];
    uint space = 0u;
    EACH(LOAD_COUNT, LOAD_ROWS)
    EACH(LOAD_COUNT, PUT_ROWS)
#else
    uvec4 rows[PARTS * ROWS];
    {
        uvec4 coming_rows[PARTS * ROWS];
        uint chunk_ = first;
        uint has_third_ = coming_thirds;
        EACH_ROW(LOAD_ROW)
        EACH_ROW(MOVE_ROW)
    }
#endif
    EACH_COLUMN(MOVE_LINES)
    coming_flag = FLAG_OF(first + STAGE);
    [[dont_unroll]] for (; first < end; first += STAGE) {
        thirds = coming_thirds;
        BITS_OF_LANES(coming_thirds, coming_flag != 0u)
        coming_flag = FLAG_OF(first + 2u * STAGE);
        next = first + STAGE < end ? first + STAGE : first; // behind the last one something is loaded again
        FIND_STAGE
#ifdef ROWS_ARE_SHARED
        barrier(); // this stage is there, and all are through with the one before
        EACH(LOAD_COUNT, LOAD_ROWS)
#endif
        EACH_COLUMN(LOAD_LINES)
        EACH_STAGE(MULTIPLY)
#ifdef ROWS_ARE_SHARED
        space ^= 1u;
        EACH(LOAD_COUNT, PUT_ROWS)
#endif
        EACH_COLUMN(MOVE_LINES)
        if (PART_TERMS > SEGMENT && (first + STAGE) % CHUNKS_OF_SEGMENT == 0u) {
            EACH(SUM_COUNT, ADD_SEGMENT)
        }
    }
    barrier();
    uint own = SUBGROUP * SIDES * 16u * SUMS_PITCH;
    [[dont_unroll]] for (uint matrix = 0u; matrix < COLUMNS * ROWS / SIDES; ++matrix) {
        SUBGROUP_BARRIER
        EACH(SUM_COUNT, PUT_RESULT)
        SUBGROUP_BARRIER
        uint column = first_column + own_line / SIDES + matrix / ROWS * 16u;
        uint row = first_row + matrix % ROWS * 8u;
        if (WRITES_SUMS) {
            [[unroll]] for (uint j = 0u; j < 4u * SIDES; ++j) {
                uint side = j / 4u;
                uint place = column + LANE % 16u;
                uint line = LANE / 16u + j % 4u * 2u;
                if (place < parameters.columns && row + line < parameters.rows) {
                    uint at = ((part * parameters.rows + row + line) * SIDES + side) * parameters.columns + place;
                    words_output[BASE_WORD(output) + at] = lines[own + (side * 16u + LANE % 16u) * SUMS_PITCH + line / 4u][line % 4u];
                }
            }
        } else {
            [[dont_unroll]] for (uint item = LANE; item < 64u; item += 32u) {
                uint line = item / 8u;
                uint place = item % 8u * 2u;
                if (row + line >= parameters.rows || column + place >= parameters.columns) { continue; }
                uint result = result_at(own, line, place, row, column);
                bool is_last = column + place + 1u >= parameters.columns;
                uint beside = is_last ? 0u : result_at(own, line, place + 1u, row, column);
                uint index = output_index(row + line, column + place);
                if (OUTPUT_HAS_PAIRS && !is_last) {
                    words_output[index >> 1u] = result | beside << 16u;
                } else {
                    STORE(OPERAND_BITS, words_output, index, result);
                    if (!is_last) {
                        STORE(OPERAND_BITS, words_output, output_index(row + line, column + place + 1u), beside);
                    }
                }
            }
        }
    }
}

#endif
