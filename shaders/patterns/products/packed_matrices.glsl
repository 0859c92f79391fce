// Products of rows of FLOAT16 with packed weights (packed_integers.glsl) by matrices of FLOAT16 that a subgroup holds together, whose sums are
// FLOAT32. Rows come as parts (packed_layout.glsl), and weights are made numbers where they are multiplied: integers less their zeros, as
// elements of left matrices of 16 columns and 16 terms. All sums of a chunk are exact; the sum of the first two is a chunk's, rounded once.
//
// A work group has a tile of DOWN * ROWS * 16 rows and ACROSS * COLUMNS * 16 columns, and PART_TERMS terms,
// of which STAGE chunks are in shared memory while those that follow are on their way to registers. With a gate, every other matrix has its
// columns. With WRITES_SUMS sums of parts go to memory, to be added.
//
// Its buffers are not `coherent`: it runs only where barriers are recorded between dispatches (dmlvk/kernels/target.py).
//
// The compile script passes these names and what packed_integers.glsl is passed.
#ifndef PACKED_MATRICES_GLSL
#define PACKED_MATRICES_GLSL

#define INVOCATIONS (32 * DOWN * ACROSS)
#include "cooperative_floats.glsl"
#include "cooperative_quads.glsl"
#define coherent
#define HAS_PARTS
#include "products/packed_integers.glsl"
#include "products/packed_layout.glsl"

layout(local_size_x = INVOCATIONS) in;

#ifdef IS_GATED
layout(std430, set = 0, binding = 8) readonly buffer ReadOnly_parts { uvec4 read_parts[]; };
layout(std430, set = 0, binding = 5) readonly buffer ReadOnly_packed_up { uvec4 read_packed_up[]; };
#else
layout(std430, set = 0, binding = 5) readonly buffer ReadOnly_parts { uvec4 read_parts[]; };
#endif
layout(std430, set = 0, binding = 1) readonly buffer ReadOnly_packed { uvec4 read_packed[]; };

// Whether a column's chunk can be loaded by vectors, where it has any.
layout(constant_id = 20) const bool PACKED_HAS_VECTORS = false;
// Whether results are sums of parts, of FLOAT32.
layout(constant_id = 21) const bool WRITES_SUMS = false;

#define TILE_ROWS (DOWN * ROWS * 16u)
#define TILE_LINES (ACROSS * COLUMNS * 16u) // of weights, those of the gate too
#define CHUNKS ((parameters.terms + (CHUNK - 1u)) / CHUNK)
#define LINES (parameters.row_tiles * TILE_ROWS)
#define COLUMN_VECTORS ((CHUNK_WORDS + 3u) / 4u)
#define PITCH (LINE_VECTORS + 1u) // one vector more moves what is loaded together to other banks
#define ROWS_SPACE (STAGE * TILE_ROWS * PITCH)
#define WEIGHTS_SPACE (STAGE * TILE_LINES * COLUMN_VECTORS)
#define ENTRIES_SPACE (STAGE * TILE_LINES)
#define SUMS_PITCH 5u
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
shared uvec4 lines[LARGER(2 * ROWS_SPACE, DOWN * ACROSS * 32u * SUMS_PITCH)];
shared uvec4 weight_lines[2 * WEIGHTS_SPACE];
// A scale as FLOAT32, and what is taken from integers, as two FLOAT16.
shared uvec2 entries[2 * ENTRIES_SPACE];

#ifdef IS_GATED
#define LINE_SIDE(line) ((line) / 16u % 2u)
#define COLUMN(line) min(first_column + (line) / 32u * 16u + (line) % 16u, parameters.columns - 1u)
#define PACKED_VECTOR(side, index) \
    ((side) == 1u ? read_packed_up[(BASE_WORD(packed_up) >> 2u) + (index)] : read_packed[(BASE_WORD(packed) >> 2u) + (index)])
#define TILE_COLUMNS (TILE_LINES / 2u)
#else
#define LINE_SIDE(line) 0u
#define COLUMN(line) min(first_column + (line), parameters.columns - 1u)
#define PACKED_VECTOR(side, index) read_packed[(BASE_WORD(packed) >> 2u) + (index)]
#define TILE_COLUMNS TILE_LINES
#endif

// What of a stage an invocation loads: vectors of rows, and items: a column's chunk of weights with its scale and zero. What stands in main()
// as it is: arrays that functions share are kept in memory by some drivers.
#define ROW_LOADS (STAGE * TILE_ROWS * LINE_VECTORS / INVOCATIONS)
#define ITEM_LOADS ((STAGE * TILE_LINES + INVOCATIONS - 1u) / INVOCATIONS)
#define ITEM(i) min((i) * INVOCATIONS + invocation, STAGE * TILE_LINES - 1u)
#define ITEM_LINE(i) (ITEM(i) / STAGE)
#define ROW_VECTOR(i) ((i) * INVOCATIONS + invocation)
#define LOAD_STAGE(first) \
    [[unroll]] for (uint i = 0u; i < ROW_LOADS; ++i) { \
        uint chunk_ = min((first) + ROW_VECTOR(i) / (TILE_ROWS * LINE_VECTORS), end - 1u); \
        uint at_ = LINE_AT(chunk_, first_row, LINES) + ROW_VECTOR(i) % (TILE_ROWS * LINE_VECTORS); \
        loaded_rows[i] = read_parts[(BASE_WORD(parts) >> 2u) + at_]; \
    } \
    [[unroll]] for (uint i = 0u; i < ITEM_LOADS; ++i) { \
        uint term_ = min((first) + ITEM(i) % STAGE, end - 1u) * CHUNK; \
        uint column_ = COLUMN(ITEM_LINE(i)); \
        uint at_ = (column_ * PACKED_COLUMN + term_) / uint(WORD_TERMS); \
        [[unroll]] for (uint j = 0u; j < COLUMN_VECTORS; ++j) { \
            if (PACKED_HAS_VECTORS) { \
                loaded[i * COLUMN_VECTORS + j] = PACKED_VECTOR(LINE_SIDE(ITEM_LINE(i)), at_ / 4u + j); \
            } else { \
                loaded[i * COLUMN_VECTORS + j] = uvec4(0u); \
                [[unroll]] for (uint k = 0u; k < 4u; ++k) { \
                    if (4u * j + k < CHUNK_WORDS && term_ + (4u * j + k) * uint(WORD_TERMS) < parameters.terms) { \
                        loaded[i * COLUMN_VECTORS + j][k] = WEIGHT_WORD(LINE_SIDE(ITEM_LINE(i)), at_ + 4u * j + k); \
                    } \
                } \
            } \
        } \
        loaded_scales[i] = SCALE_AT(LINE_SIDE(ITEM_LINE(i)), scale_index(column_, term_)); \
        loaded_zeros[i] = ZERO_AT(LINE_SIDE(ITEM_LINE(i)), zero_index(column_, term_)); \
    }
#define PUT_STAGE(space) \
    [[unroll]] for (uint i = 0u; i < ROW_LOADS; ++i) { \
        lines[(space) * ROWS_SPACE + ROW_VECTOR(i) / LINE_VECTORS * PITCH + ROW_VECTOR(i) % LINE_VECTORS] = loaded_rows[i]; \
    } \
    [[unroll]] for (uint i = 0u; i < ITEM_LOADS; ++i) { \
        uint item_ = ITEM(i) % STAGE * TILE_LINES + ITEM_LINE(i); \
        [[unroll]] for (uint j = 0u; j < COLUMN_VECTORS; ++j) { \
            weight_lines[(space) * WEIGHTS_SPACE + item_ * COLUMN_VECTORS + j] = loaded[i * COLUMN_VECTORS + j]; \
        } \
        entries[(space) * ENTRIES_SPACE + item_] = uvec2(NUMBER_OF(loaded_scales[i]), biases_of(loaded_zeros[i])); \
    }

// What integers of a word have too much where their bits are those of a FLOAT16 of 1024 or 64 and more: integers below 2048, exact.
uint biases_of(uint zero) {
    float moved = float(int(zero)) + HALF_RANGE;
    return packHalf2x16(vec2(1024.0 + moved, 64.0 + moved));
}

// Eight weights of a column as four pairs, in the order of packed_layout.glsl: exact.
#if WEIGHT_BITS == 4
#define WEIGHT_PAIRS(pairs, at, biases) \
    { \
        uint word_ = FLIPPED(weight_lines[at][LANE % 4u]); \
        f16vec2 both_ = unpackFloat2x16(biases); \
        [[unroll]] for (uint k = 0u; k < 4u; k += 2u) { \
            uint moved_ = word_ >> 4u * k; \
            pairs[k] = packFloat2x16(unpackFloat2x16(moved_ & 0x000f000fu | 0x64006400u) - f16vec2(both_.x)); \
            pairs[k + 1u] = packFloat2x16(unpackFloat2x16(moved_ & 0x00f000f0u | 0x54005400u) - f16vec2(both_.y)); \
        } \
    }
#elif WEIGHT_BITS == 8
#define WEIGHT_PAIRS(pairs, at, biases) \
    [[unroll]] for (uint k = 0u; k < 4u; k += 2u) { \
        uint word_ = FLIPPED(weight_lines[(at) + LANE % 4u / 2u][LANE % 2u * 2u + k / 2u]); \
        f16vec2 bias_ = f16vec2(unpackFloat2x16(biases).x); \
        pairs[k] = packFloat2x16(unpackFloat2x16(word_ & 0x00ff00ffu | 0x64006400u) - bias_); \
        pairs[k + 1u] = packFloat2x16(unpackFloat2x16(word_ >> 8u & 0x00ff00ffu | 0x64006400u) - bias_); \
    }
#else
#define WEIGHT_PAIRS(pairs, at, biases) \
    { \
        uint word_ = FLIPPED(weight_lines[at][LANE % 4u / 2u]) >> LANE % 2u * 16u; \
        uint eight_ = word_ & 0xffu | (word_ & 0xff00u) << 8u; \
        f16vec2 bias_ = f16vec2(unpackFloat2x16(biases).x); \
        [[unroll]] for (uint k = 0u; k < 4u; ++k) { \
            pairs[k] = packFloat2x16(unpackFloat2x16(eight_ >> 2u * k & 0x00030003u | 0x64006400u) - bias_); \
        } \
    }
#endif

// A subgroup's matrices of a chunk.
#define MULTIPLY(stage) \
    RIGHT_FLOATS parts[2u * PARTS * ROWS]; \
    [[unroll]] for (uint i = 0u; i < 2u * PARTS * ROWS; ++i) { \
        uint at_ = space * ROWS_SPACE + ((stage) * TILE_ROWS + own_row + i / (2u * PARTS) * 16u) * PITCH + i % (2u * PARTS) * 2u; \
        LOAD_RIGHT_FLOATS(parts[i], lines, at_, BY_COLUMNS, PITCH) \
    } \
    [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { \
        uint item_ = (stage) * TILE_LINES + own_line + c * 16u + LANE / 4u; \
        uvec2 upper_ = entries[space * ENTRIES_SPACE + item_]; \
        uvec2 lower_ = entries[space * ENTRIES_SPACE + item_ + 8u]; \
        uint upper_pairs[4], lower_pairs[4]; \
        WEIGHT_PAIRS(upper_pairs, space * WEIGHTS_SPACE + item_ * COLUMN_VECTORS, upper_.y) \
        WEIGHT_PAIRS(lower_pairs, space * WEIGHTS_SPACE + (item_ + 8u) * COLUMN_VECTORS, lower_.y) \
        LEFT_FLOATS weights[2]; \
        [[unroll]] for (uint side = 0u; side < 2u; ++side) { \
            uvec2 upper_side = uvec2(upper_pairs[2u * side], upper_pairs[2u * side + 1u]); \
            uvec2 lower_side = uvec2(lower_pairs[2u * side], lower_pairs[2u * side + 1u]); \
            LEFT_OF_PAIRS(weights[side], upper_side, lower_side) \
        } \
        SUMS of_parts[PARTS * ROWS]; \
        [[unroll]] for (uint i = 0u; i < PARTS * ROWS; ++i) { \
            of_parts[i] = filled_with(0.0); \
        } \
        [[unroll]] for (uint side = 0u; side < 2u; ++side) { \
            [[unroll]] for (uint i = 0u; i < PARTS * ROWS; ++i) { \
                of_parts[i] = matrices_product_plus(weights[side], parts[2u * i + side], of_parts[i]); \
            } \
        } \
        SUMS scales; \
        SUMS_OF_ROWS(scales, uintBitsToFloat(upper_.x), uintBitsToFloat(lower_.x)) \
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) { \
            SUMS value = sum_of(of_parts[PARTS * r], of_parts[PARTS * r + 1u]); \
            value = sum_of(value, of_parts[PARTS * r + 2u]); \
            sums[c * ROWS + r] = sum_of(sums[c * ROWS + r], product_of_sums(value, scales)); \
        } \
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

#ifdef IS_GATED
#define SIDES 2u
#else
#define SIDES 1u
#endif

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
    uint own_row = SUBGROUP % DOWN * ROWS * 16u;
    uint own_line = SUBGROUP / DOWN * COLUMNS * 16u;
    SUMS sums[COLUMNS * ROWS];
    SUMS totals[COLUMNS * ROWS];
    [[unroll]] for (uint i = 0u; i < COLUMNS * ROWS; ++i) {
        sums[i] = filled_with(0.0);
        totals[i] = filled_with(0.0);
    }
    uvec4 loaded_rows[ROW_LOADS];
    uvec4 loaded[ITEM_LOADS * COLUMN_VECTORS];
    uint loaded_scales[ITEM_LOADS], loaded_zeros[ITEM_LOADS];
    uint space = 0u;
    LOAD_STAGE(first)
    PUT_STAGE(0u)
    [[dont_unroll]] for (; first < end; first += STAGE) {
        barrier(); // this stage is there, and all are through with the one before
        uint next = min(first + STAGE, end - 1u); // behind the last one something is loaded again
        LOAD_STAGE(next)
        [[unroll]] for (uint stage = 0u; stage < STAGE; ++stage) {
            if (stage == 0u || first + stage < end) {
                MULTIPLY(stage)
            }
        }
        space ^= 1u;
        PUT_STAGE(space)
        if (PART_TERMS > SEGMENT && (first + STAGE) % CHUNKS_OF_SEGMENT == 0u) {
            [[unroll]] for (uint i = 0u; i < COLUMNS * ROWS; ++i) {
                totals[i] = sum_of(totals[i], sums[i]);
                sums[i] = filled_with(0.0);
            }
        }
    }
    barrier();
    uint own = SUBGROUP * 32u * SUMS_PITCH;
    [[unroll]] for (uint i = 0u; i < COLUMNS * ROWS / SIDES; ++i) {
        uint matrix = i / ROWS * SIDES * ROWS + i % ROWS;
        SUBGROUP_BARRIER
        [[unroll]] for (uint side = 0u; side < SIDES; ++side) {
            SUMS total = sum_of(totals[matrix + side * ROWS], sums[matrix + side * ROWS]);
            STORE_SUMS(lines, own + side * 16u * SUMS_PITCH, total, SUMS_PITCH)
        }
        SUBGROUP_BARRIER
        uint column = first_column + own_line / SIDES + i / ROWS * 16u;
        uint row = first_row + own_row + i % ROWS * 16u;
        if (WRITES_SUMS) {
            [[unroll]] for (uint j = 0u; j < 8u * SIDES; ++j) {
                uint side = j / 8u;
                uint place = column + LANE % 16u;
                uint line = LANE / 16u + j % 8u * 2u;
                if (place < parameters.columns && row + line < parameters.rows) {
                    uint at = ((part * parameters.rows + row + line) * SIDES + side) * parameters.columns + place;
                    words_output[BASE_WORD(output) + at] = lines[own + (side * 16u + LANE % 16u) * SUMS_PITCH + line / 4u][line % 4u];
                }
            }
        } else {
            [[dont_unroll]] for (uint item = LANE; item < 128u; item += 32u) {
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
