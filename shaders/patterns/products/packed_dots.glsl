// Products of rows of FLOAT16 with packed weights (packed_integers.glsl) in tiles, on GPUs without matrices that have exact sums. Rows come as
// planes (packed_planes.glsl).
//
// A work group has DOWN * ROWS rows and ACROSS * COLUMNS columns, of which each invocation computes ROWS and COLUMNS, and PART_TERMS terms, of
// which a chunk is in shared memory while the next one is on its way to registers. With a gate, every other column is of its weights. With
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

#define TILE_ROWS (DOWN * ROWS)
#define TILE_LINES (ACROSS * COLUMNS) // of weights, those of the gate too
#define RESULTS (ROWS * COLUMNS)
#define LINES (parameters.row_tiles * TILE_ROWS)
#define PITCH (LINE_VECTORS + 1u) // one vector more moves what is loaded together to other banks
#define ROWS_SPACE (TILE_ROWS * PITCH)
#define WORDS_SPACE (TILE_LINES * CHUNK_WORDS)
shared uvec4 lines[2u * ROWS_SPACE];
shared uint weight_words[2u * WORDS_SPACE]; // of all columns the first words, then the second ones
shared uvec2 entries[2u * TILE_LINES];      // a scale as FLOAT32, and what is taken from bytes

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
#define WORD_LOADS ((WORDS_SPACE + INVOCATIONS - 1u) / INVOCATIONS)
#define ENTRY_LOADS ((TILE_LINES + INVOCATIONS - 1u) / INVOCATIONS)
#define LOADED(i, count) min((i) * INVOCATIONS + invocation, (count) - 1u)
#define LOAD_CHUNK(chunk) \
    { \
        uint term_ = (chunk) * CHUNK; \
        [[unroll]] for (uint i = 0u; i < ROW_LOADS; ++i) { \
            loaded_rows[i] = fours_parts[(BASE_WORD(parts) >> 2u) + LINE_AT(chunk, first_row, LINES) + LOADED(i, ROW_VECTORS)]; \
        } \
        [[unroll]] for (uint i = 0u; i < WORD_LOADS; ++i) { \
            uint line_ = LOADED(i, WORDS_SPACE) / CHUNK_WORDS; \
            uint word_ = LOADED(i, WORDS_SPACE) % CHUNK_WORDS; \
            uint at_ = (COLUMN(line_) * PACKED_COLUMN + term_) / uint(WORD_TERMS) + word_; \
            bool is_there_ = term_ + word_ * uint(WORD_TERMS) < parameters.terms; \
            loaded_words[i] = is_there_ ? WEIGHT_WORD(LINE_SIDE(line_), at_) : 0u; \
        } \
        [[unroll]] for (uint i = 0u; i < ENTRY_LOADS; ++i) { \
            uint line_ = LOADED(i, TILE_LINES); \
            uint scale_ = NUMBER_OF(SCALE_AT(LINE_SIDE(line_), scale_index(COLUMN(line_), term_))); \
            uint zero_ = ZERO_KIND == ZERO_IS_PACKED ? ZERO_AT(LINE_SIDE(line_), zero_index(COLUMN(line_), term_)) : ZERO_NUMBER; \
            loaded_entries[i] = uvec2(scale_, uint(ZERO_OF_BYTES(zero_))); \
        } \
    }
#define PUT_CHUNK(space) \
    [[unroll]] for (uint i = 0u; i < ROW_LOADS; ++i) { \
        uint vector_ = LOADED(i, ROW_VECTORS); \
        lines[(space) * ROWS_SPACE + vector_ / LINE_VECTORS * PITCH + vector_ % LINE_VECTORS] = loaded_rows[i]; \
    } \
    [[unroll]] for (uint i = 0u; i < WORD_LOADS; ++i) { \
        uint item_ = LOADED(i, WORDS_SPACE); \
        weight_words[(space) * WORDS_SPACE + item_ % CHUNK_WORDS * TILE_LINES + item_ / CHUNK_WORDS] = loaded_words[i]; \
    } \
    [[unroll]] for (uint i = 0u; i < ENTRY_LOADS; ++i) { \
        entries[(space) * TILE_LINES + LOADED(i, TILE_LINES)] = loaded_entries[i]; \
    }

#define ROW_VECTOR(r, i) lines[space * ROWS_SPACE + (own_row + (r)) * PITCH + (i)]
#define BYTES_OF_COLUMN(c, k) \
    WEIGHT_BYTES(weight_words[space * WORDS_SPACE + (k) / WORD_PARTS * TILE_LINES + (c) * ACROSS + lane], (k) % WORD_PARTS)

// Numbers of a chunk, rounded once.
#if HAS_DOT_PRODUCT
#define MULTIPLY_CHUNK \
    uint bytes_[COLUMNS * PLANE_WORDS]; \
    [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { \
        [[unroll]] for (uint k = 0u; k < PLANE_WORDS; ++k) { \
            bytes_[c * PLANE_WORDS + k] = BYTES_OF_COLUMN(c, k); \
        } \
    } \
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) { \
        uvec4 of_line_ = ROW_VECTOR(r, 6u); \
        uint sums_[PLANES * COLUMNS]; \
        [[unroll]] for (uint plane = 0u; plane < PLANES; ++plane) { \
            [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { \
                sums_[plane * COLUMNS + c] = SUM_BIAS - own_entries[c].y * of_line_[plane]; \
            } \
            [[unroll]] for (uint k = 0u; k < PLANE_WORDS; k += 4u) { \
                uvec4 words_ = ROW_VECTOR(r, plane * PLANE_VECTORS + k / 4u); \
                [[unroll]] for (uint i = 0u; i < 4u; ++i) { \
                    [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { \
                        sums_[plane * COLUMNS + c] += four_products(bytes_[c * PLANE_WORDS + k + i], words_[i]); \
                    } \
                } \
            } \
        } \
        [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { \
            numbers[r * COLUMNS + c] = number_of_sums(sums_[c], sums_[COLUMNS + c], sums_[2u * COLUMNS + c]); \
        } \
    }
#else
// By floats, which have exact sums: of weights of 8 bits for each plane, else for two: the first two are integers up to 2^15.
#define OF_BYTE(word, b) bitfieldExtract(int(word), int(8u * (b)), 8)
#if WEIGHT_BITS == 8
#define FLOAT_PLANES 3u
#define NUMBER_OF_SUMS(first, second, third) \
    number_of_sums(uint(int(first)) + SUM_BIAS, uint(int(second)) + SUM_BIAS, uint(int(third)) + SUM_BIAS)
#else
#define FLOAT_PLANES 2u
#define NUMBER_OF_SUMS(first, second, third) exact_product_plus(first, 256.0, second)
#endif
#define MULTIPLY_CHUNK \
    float sums_[FLOAT_PLANES * RESULTS]; \
    [[unroll]] for (uint i = 0u; i < FLOAT_PLANES * RESULTS; ++i) { \
        sums_[i] = 0.0; \
    } \
    [[dont_unroll]] for (uint word = 0u; word < CHUNK_WORDS; ++word) { \
        [[unroll]] for (uint part = 0u; part < WORD_PARTS; ++part) { \
            uint k = word * WORD_PARTS + part; \
            vec4 weights_[COLUMNS]; \
            [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { \
                uint bytes_ = WEIGHT_BYTES(weight_words[space * WORDS_SPACE + word * TILE_LINES + c * ACROSS + lane], part); \
                [[unroll]] for (uint b = 0u; b < 4u; ++b) { \
                    weights_[c][b] = float(OF_BYTE(bytes_, b) - int(own_entries[c].y)); \
                } \
            } \
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) { \
                uint first_ = ROW_VECTOR(r, k / 4u)[k % 4u]; \
                uint second_ = ROW_VECTOR(r, PLANE_VECTORS + k / 4u)[k % 4u]; \
                uint third_ = ROW_VECTOR(r, 2u * PLANE_VECTORS + k / 4u)[k % 4u]; \
                [[unroll]] for (uint b = 0u; b < 4u; ++b) { \
                    float terms_[PLANES] = FLOAT_PLANES == 2u \
                        ? float[](float(OF_BYTE(first_, b) * 256 + OF_BYTE(second_, b)), float(OF_BYTE(third_, b)), 0.0) \
                        : float[](float(OF_BYTE(first_, b)), float(OF_BYTE(second_, b)), float(OF_BYTE(third_, b))); \
                    [[unroll]] for (uint i = 0u; i < FLOAT_PLANES * COLUMNS; ++i) { \
                        uint at_ = i / COLUMNS * RESULTS + r * COLUMNS + i % COLUMNS; \
                        sums_[at_] = exact_product_plus(terms_[i / COLUMNS], weights_[i % COLUMNS][b], sums_[at_]); \
                    } \
                } \
            } \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < RESULTS; ++i) { \
        numbers[i] = NUMBER_OF_SUMS(sums_[i], sums_[RESULTS + i], sums_[(FLOAT_PLANES - 1u) * RESULTS + i]); \
    }
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
    uvec2 loaded_entries[ENTRY_LOADS];
    uint space = 0u;
    LOAD_CHUNK(chunk)
    PUT_CHUNK(0u)
    [[dont_unroll]] for (; chunk < end; ++chunk) {
        barrier(); // this chunk is there, and all are through with the one before
        LOAD_CHUNK(min(chunk + 1u, end - 1u)) // behind the last one it is loaded again
        uvec2 own_entries[COLUMNS];
        [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) {
            own_entries[c] = entries[space * TILE_LINES + c * ACROSS + lane];
        }
        float numbers[RESULTS];
        MULTIPLY_CHUNK
        uint all_rests = 0u;
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
            all_rests |= ROW_VECTOR(r, 7u).y;
        }
        if (all_rests != 0u) { // which few chunks have
            [[dont_unroll]] for (uint i = 0u; i < RESULTS; ++i) {
                uvec4 of_line = ROW_VECTOR(i / COLUMNS, 7u);
                uint line = i % COLUMNS * ACROSS + lane;
                uint row = min(first_row + own_row + i / COLUMNS, parameters.rows - 1u);
                float rest = rest_of_chunk(row, COLUMN(line), LINE_SIDE(line), chunk * CHUNK, of_line.y, uintBitsToFloat(of_line.x));
                [[unroll]] for (uint k = 0u; k < RESULTS; ++k) { // nothing is indexed by a variable
                    precise float both = numbers[k] + rest;
                    numbers[k] = k == i ? both : numbers[k];
                }
            }
        }
        [[unroll]] for (uint i = 0u; i < RESULTS; ++i) {
            float unit = uintBitsToFloat(ROW_VECTOR(i / COLUMNS, 6u).w);
            sums[i] = rounded_sum(sums[i], value_of_chunk(numbers[i], unit, uintBitsToFloat(own_entries[i % COLUMNS].x)));
        }
        space ^= 1u;
        PUT_CHUNK(space)
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
