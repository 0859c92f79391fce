// Products of rows with packed weights (packed_integers.glsl) in tiles, on GPUs without matrices that have exact sums. Rows come as planes
// (packed_planes.glsl).
//
// A work group has DOWN * ROWS rows and ACROSS * COLUMNS columns, of which each invocation computes ROWS and COLUMNS, and PART_TERMS terms, of
// which a chunk is in shared memory, its weights as bytes, while the next one is on its way to registers. With a gate, every other column is of its weights. With
// WRITES_SUMS sums of parts go to memory, to be added.
//
// The compile script passes these names and what packed_integers.glsl is passed.
#define INVOCATIONS (DOWN * ACROSS)
#define HAS_PARTS
#include "products/packed_integers.glsl"
#include "products/packed_planes.glsl"

layout(local_size_x = INVOCATIONS) in;

// Whether results are sums of parts, of FLOAT32.
layout(constant_id = 20) const bool WRITES_SUMS = false;

#ifdef IS_WIDE
#define ENTRY uvec3
#else
#define ENTRY uvec2
#endif
#define TILE_ROWS (DOWN * ROWS)
#define TILE_LINES (ACROSS * COLUMNS) // of weights, those of the gate too
#define RESULTS (ROWS * COLUMNS)
#define LINES (parameters.row_tiles * TILE_ROWS)
#define PITCH (LINE_VECTORS + 1u) // one vector more moves what is loaded together to other banks
#define ROWS_SPACE (TILE_ROWS * PITCH)
#define WORDS (TILE_LINES * CHUNK_WORDS)
#define BYTES_SPACE (TILE_LINES * PLANE_WORDS)
shared uvec4 lines[2u * ROWS_SPACE];
shared uint weight_bytes_of[2u * BYTES_SPACE]; // of all columns the first four bytes, then the next ones
shared ENTRY entries[2u * TILE_LINES];         // a scale as FLOAT32, what is taken from bytes, and of wide integers a minimum

// Of a line of weights, which is an invocation's column number `line / ACROSS`: two neighbouring ones share a word of the output.
#ifdef IS_GATED
#define SIDES 2u
#else
#define SIDES 1u
#endif
#define OWN_COLUMNS (COLUMNS / SIDES)
#define LINE_SIDE(line) ((line) / ACROSS % SIDES)
#define OWN_PLACE(number, lane) ((number) / 2u * (2u * ACROSS) + min(OWN_COLUMNS, 2u) * (lane) + (number) % 2u)
#define COLUMN(line) min(first_column + OWN_PLACE((line) / ACROSS / SIDES, (line) % ACROSS), parameters.columns - 1u)

#define ROW_VECTORS (TILE_ROWS * LINE_VECTORS)
#define ROW_LOADS ((ROW_VECTORS + INVOCATIONS - 1u) / INVOCATIONS)
#define WORD_LOADS ((WORDS + INVOCATIONS - 1u) / INVOCATIONS)
#define ENTRY_LOADS ((TILE_LINES + INVOCATIONS - 1u) / INVOCATIONS)
#define LOADED(i, count) min((i) * INVOCATIONS + invocation, (count) - 1u)
#define LOAD_CHUNK(chunk) \
    { \
        uint term_ = (chunk) * CHUNK; \
        [[unroll]] for (uint i = 0u; i < ROW_LOADS; ++i) { \
            loaded_rows[i] = fours_parts[(BASE_WORD(parts) >> 2u) + LINE_AT(chunk, first_row, LINES) + LOADED(i, ROW_VECTORS)]; \
        } \
        [[unroll]] for (uint i = 0u; i < WORD_LOADS; ++i) { \
            uint line_ = LOADED(i, WORDS) / CHUNK_WORDS; \
            uint first_ = term_ + LOADED(i, WORDS) % CHUNK_WORDS * uint(WORD_TERMS); \
            uint column_ = COLUMN(line_) * PACKED_COLUMN / uint(WORD_TERMS); \
            bool is_there_ = first_ < parameters.terms; \
            loaded_words[i] = is_there_ ? WEIGHT_WORD(LINE_SIDE(line_), column_ + first_ / uint(WORD_TERMS)) : 0u; \
            if (CHUNK_HIGH != 0u) { loaded_highs[i] = is_there_ ? WEIGHT_WORD(LINE_SIDE(line_), column_ + high_word(first_)) : 0u; } \
        } \
        [[unroll]] for (uint i = 0u; i < ENTRY_LOADS; ++i) { \
            uint line_ = LOADED(i, TILE_LINES); \
            FIND_ENTRY(loaded_entries[i], LINE_SIDE(line_), COLUMN(line_), term_) \
        } \
    }
#ifdef IS_WIDE
#define FIND_ENTRY(entry, side, column, term) \
    uvec2 block_ = SCALE_AND_MINIMUM_AT(side, column, term); \
    entry = uvec3(block_.x, uint(ZERO_OF_BYTES(ZERO_INTEGER_AT(side, column, term))), block_.y);
#else
#define FIND_ENTRY(entry, side, column, term) \
    entry = uvec2(NUMBER_OF(SCALE_AT(side, scale_index(column, term))), uint(ZERO_OF_BYTES(ZERO_INTEGER_AT(side, column, term))));
#endif
#define PUT_CHUNK(chunk, space) \
    [[unroll]] for (uint i = 0u; i < ROW_LOADS; ++i) { \
        uint vector_ = LOADED(i, ROW_VECTORS); \
        lines[(space) * ROWS_SPACE + vector_ / LINE_VECTORS * PITCH + vector_ % LINE_VECTORS] = loaded_rows[i]; \
    } \
    [[unroll]] for (uint i = 0u; i < WORD_LOADS; ++i) { \
        uint word_ = LOADED(i, WORDS) % CHUNK_WORDS; \
        uint high_ = CHUNK_HIGH == 0u ? 0u : high_of(loaded_highs[i], (chunk) * CHUNK + word_ * uint(WORD_TERMS)); \
        [[unroll]] for (uint part = 0u; part < WORD_PARTS; ++part) { \
            uint at_ = (word_ * WORD_PARTS + part) * TILE_LINES + LOADED(i, WORDS) / CHUNK_WORDS; \
            weight_bytes_of[(space) * BYTES_SPACE + at_] = WEIGHT_BYTES(loaded_words[i], high_, part); \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < ENTRY_LOADS; ++i) { \
        entries[(space) * TILE_LINES + LOADED(i, TILE_LINES)] = loaded_entries[i]; \
    }

#define ROW_VECTOR(r, i) lines[space * ROWS_SPACE + (own_row + (r)) * PITCH + (i)]
#define LINE_WORD(r, number) ROW_VECTOR(r, PLANE_SPACE + (number) / 4u)[(number) % 4u]
#define BYTES_OF_COLUMN(c, k) weight_bytes_of[space * BYTES_SPACE + (k) * TILE_LINES + (c) * ACROSS + lane]

// Numbers of a chunk, rounded once.
#ifdef IS_WIDE
#define NUMBER_OF_BYTES(first, second, third, last) number_of_sums(first, second, third, last)
#else
#define NUMBER_OF_BYTES(first, second, third, last) number_of_sums(first, second, third)
#endif
#if HAS_DOT_PRODUCT
#define MULTIPLY_CHUNK \
    uint bytes_[COLUMNS * PLANE_WORDS]; \
    [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { \
        [[unroll]] for (uint k = 0u; k < PLANE_WORDS; ++k) { \
            bytes_[c * PLANE_WORDS + k] = BYTES_OF_COLUMN(c, k); \
        } \
    } \
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) { \
        uint sums_[PLANES * COLUMNS]; \
        [[unroll]] for (uint plane = 0u; plane < PLANES; ++plane) { \
            [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { \
                sums_[plane * COLUMNS + c] = SUM_BIAS - own_entries[c].y * LINE_WORD(r, plane); \
            } \
            [[unroll]] for (uint k = 0u; k < PLANE_WORDS; k += 4u) { \
                uvec4 words_ = ROW_VECTOR(r, plane * PLANE_VECTORS + k / 4u); \
                [[unroll]] for (uint i = 0u; i < min(PLANE_WORDS, 4u); ++i) { \
                    [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { \
                        sums_[plane * COLUMNS + c] += four_products(bytes_[c * PLANE_WORDS + k + i], words_[i]); \
                    } \
                } \
            } \
        } \
        [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { \
            numbers[r * COLUMNS + c] = NUMBER_OF_BYTES(sums_[c], sums_[COLUMNS + c], sums_[2u * COLUMNS + c], sums_[(PLANES - 1u) * COLUMNS + c]); \
        } \
    }
#else
// By floats, which have exact sums: of weights of 8 bits and of wide integers for each plane, else for two: the first two are integers up to 2^15.
#define OF_BYTE(word, b) bitfieldExtract(int(word), int(8u * (b)), 8)
#if WEIGHT_BITS == 8 || defined(IS_WIDE)
#define FLOAT_PLANES PLANES
#define NUMBER_OF_FLOATS(first, second, third, last) \
    NUMBER_OF_BYTES(uint(int(first)) + SUM_BIAS, uint(int(second)) + SUM_BIAS, uint(int(third)) + SUM_BIAS, uint(int(last)) + SUM_BIAS)
#define TERM_OF_PLANE(plane, r, k, b) float(OF_BYTE(ROW_VECTOR(r, (plane) * PLANE_VECTORS + (k) / 4u)[(k) % 4u], b))
#else
#define FLOAT_PLANES 2u
#define NUMBER_OF_FLOATS(first, second, third, last) exact_product_plus(first, 256.0, second)
#define TERM_OF_PLANE(plane, r, k, b) \
    float((plane) == 0u ? OF_BYTE(ROW_VECTOR(r, (k) / 4u)[(k) % 4u], b) * 256 + OF_BYTE(ROW_VECTOR(r, PLANE_VECTORS + (k) / 4u)[(k) % 4u], b) \
        : OF_BYTE(ROW_VECTOR(r, 2u * PLANE_VECTORS + (k) / 4u)[(k) % 4u], b))
#endif
#define MULTIPLY_CHUNK \
    float sums_[FLOAT_PLANES * RESULTS]; \
    [[unroll]] for (uint i = 0u; i < FLOAT_PLANES * RESULTS; ++i) { \
        sums_[i] = 0.0; \
    } \
    [[dont_unroll]] for (uint k = 0u; k < PLANE_WORDS; ++k) { \
        vec4 weights_[COLUMNS]; \
        [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { \
            uint bytes_ = BYTES_OF_COLUMN(c, k); \
            [[unroll]] for (uint b = 0u; b < 4u; ++b) { \
                weights_[c][b] = float(OF_BYTE(bytes_, b) - int(own_entries[c].y)); \
            } \
        } \
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) { \
            [[unroll]] for (uint plane = 0u; plane < FLOAT_PLANES; ++plane) { \
                [[unroll]] for (uint b = 0u; b < 4u; ++b) { \
                    float term_ = TERM_OF_PLANE(plane, r, k, b); \
                    [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { \
                        uint at_ = plane * RESULTS + r * COLUMNS + c; \
                        sums_[at_] = exact_product_plus(term_, weights_[c][b], sums_[at_]); \
                    } \
                } \
            } \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < RESULTS; ++i) { \
        numbers[i] = NUMBER_OF_FLOATS(sums_[i], sums_[RESULTS + i], sums_[min(2u, FLOAT_PLANES - 1u) * RESULTS + i], \
            sums_[(FLOAT_PLANES - 1u) * RESULTS + i]); \
    }
#endif
#ifdef IS_WIDE
#define VALUE_OF_NUMBER(number, r, c) \
    value_of_chunk(number, uintBitsToFloat(LINE_WORD(r, LINE_TERMS)), uintBitsToFloat(LINE_WORD(r, LINE_UNIT)), own_entries[c].xz)
#else
#define VALUE_OF_NUMBER(number, r, c) value_of_chunk(number, uintBitsToFloat(LINE_WORD(r, LINE_UNIT)), uintBitsToFloat(own_entries[c].x))
#endif

void main() {
    WORK_GROUP(group)
    uint invocation = index_in_group();
    uint lane = invocation % ACROSS;
    uint own_row = invocation / ACROSS * ROWS;
    // Work groups that run at one time have the same weights.
    uint first_row = group % parameters.row_tiles * TILE_ROWS;
    uint tile = group / parameters.row_tiles;
    uint first_column = tile % parameters.column_tiles * (TILE_LINES / SIDES);
    uint part = tile / parameters.column_tiles;
    uint chunk = part * (PART_TERMS / CHUNK);
    uint end = min(chunk + PART_TERMS / CHUNK, CHUNKS);
    float sums[RESULTS], totals[RESULTS];
    [[unroll]] for (uint i = 0u; i < RESULTS; ++i) {
        sums[i] = 0.0;
        totals[i] = 0.0;
    }
    uvec4 loaded_rows[ROW_LOADS];
    uint loaded_words[WORD_LOADS];
    uint loaded_highs[WORD_LOADS];
    ENTRY loaded_entries[ENTRY_LOADS];
    uint space = 0u;
    LOAD_CHUNK(chunk)
    PUT_CHUNK(chunk, 0u)
    [[dont_unroll]] for (; chunk < end; ++chunk) {
        barrier(); // this chunk is there, and all are through with the one before
        LOAD_CHUNK(min(chunk + 1u, end - 1u)) // behind the last one it is loaded again
        ENTRY own_entries[COLUMNS];
        [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) {
            own_entries[c] = entries[space * TILE_LINES + c * ACROSS + lane];
        }
        float numbers[RESULTS];
        MULTIPLY_CHUNK
        uint all_rests = 0u;
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
            all_rests |= LINE_WORD(r, LINE_RESTS);
        }
        if (all_rests != 0u) { // which few chunks have
            [[dont_unroll]] for (uint i = 0u; i < RESULTS; ++i) {
                uint line = i % COLUMNS * ACROSS + lane;
                uint row = min(first_row + own_row + i / COLUMNS, parameters.rows - 1u);
                float scale = uintBitsToFloat(LINE_WORD(i / COLUMNS, LINE_SCALE));
                float rest = rest_of_chunk(row, COLUMN(line), LINE_SIDE(line), chunk * CHUNK, LINE_WORD(i / COLUMNS, LINE_RESTS), scale);
                [[unroll]] for (uint k = 0u; k < RESULTS; ++k) { // nothing is indexed by a variable
                    precise float both = numbers[k] + rest;
                    numbers[k] = k == i ? both : numbers[k];
                }
            }
        }
        [[unroll]] for (uint i = 0u; i < RESULTS; ++i) {
            sums[i] = rounded_sum(sums[i], VALUE_OF_NUMBER(numbers[i], i / COLUMNS, i % COLUMNS));
        }
        space ^= 1u;
        PUT_CHUNK(min(chunk + 1u, end - 1u), space)
        if (PART_TERMS > SEGMENT && (chunk + 1u) % CHUNKS_OF_SEGMENT == 0u) {
            [[unroll]] for (uint i = 0u; i < RESULTS; ++i) {
                totals[i] = rounded_sum(totals[i], sums[i]);
                sums[i] = 0.0;
            }
        }
    }
    [[unroll]] for (uint i = 0u; i < RESULTS; ++i) {
        totals[i] = rounded_sum(totals[i], sums[i]);
    }
    // One after the other, by moving what follows: nothing is indexed by a variable.
    [[dont_unroll]] for (uint i = 0u; i < ROWS * OWN_COLUMNS; i += min(OWN_COLUMNS, 2u)) {
        uint row = first_row + own_row + i / OWN_COLUMNS;
        uint column = first_column + OWN_PLACE(i % OWN_COLUMNS, lane);
        uint results[2];
        [[unroll]] for (uint j = 0u; j < min(OWN_COLUMNS, 2u); ++j) {
            results[j] = 0u;
            if (row < parameters.rows && column + j < parameters.columns) {
                if (WRITES_SUMS) {
                    [[unroll]] for (uint side = 0u; side < SIDES; ++side) {
                        uint at = ((part * parameters.rows + row) * SIDES + side) * parameters.columns + column + j;
                        words_output[BASE_WORD(output) + at] = floatBitsToUint(totals[j * SIDES + side]);
                    }
                } else {
                    results[j] = result_of_total(totals[j * SIDES], row, column + j, 0u);
#ifdef IS_GATED
                    results[j] = gated(results[j], result_of_total(totals[j * SIDES + 1u], row, column + j, 1u));
#endif
                    if (!OUTPUT_HAS_PAIRS || OWN_COLUMNS == 1u) {
                        STORE(OPERAND_BITS, words_output, output_index(row, column + j), results[j]);
                    }
                }
            }
        }
        if (!WRITES_SUMS && OUTPUT_HAS_PAIRS && OWN_COLUMNS > 1u && row < parameters.rows && column < parameters.columns) {
            words_output[output_index(row, column) >> 1u] = results[0] | results[1] << 16u;
        }
        [[unroll]] for (uint k = 0u; k < RESULTS; ++k) {
            totals[k] = k + min(OWN_COLUMNS, 2u) * SIDES < RESULTS ? totals[min(k + min(OWN_COLUMNS, 2u) * SIDES, RESULTS - 1u)] : 0.0;
        }
    }
}
