// Products with packed weights on processors: by exact integers or, where IS_CHUNKED is defined, chunk by chunk. An invocation has a lane of
// columns and BLOCK_ROWS rows, without shared memory. It goes through each chunk of the rows once, for GROUP_COLUMNS / INVOCATIONS columns.
//
// Integers are floats here, since sums below 2^24 are exact, and one instruction multiplies and adds. With weights of up to 4 bits two
// parts of n suffice, the second of 16 bits; with 8 bits there are three.
//
// The compile script passes BLOCK_ROWS, INVOCATIONS, MOST_COLUMNS (columns of an invocation) and what packed_integers.glsl, or
// packed_chunks.glsl, is passed.
#ifdef IS_CHUNKED
#include "products/packed_chunks.glsl"
#else
#define IS_FOR_PROCESSORS
#include "products/packed_integers.glsl"
#endif

layout(local_size_x = INVOCATIONS) in;

layout(constant_id = 20) const uint GROUP_COLUMNS = 1u; // a multiple of INVOCATIONS
// Whether all chunks are whole.
layout(constant_id = 21) const bool CHUNKS_ARE_WHOLE = false;

#if WEIGHT_BITS == 8
#define ROW_PARTS 3
#else
#define ROW_PARTS 2
#endif

void main() {
    WORK_GROUP(group)
    uint first_row = group % parameters.row_tiles * BLOCK_ROWS;
    uint first_column = group / parameters.row_tiles * GROUP_COLUMNS + index_in_group();
    float totals[MOST_COLUMNS * BLOCK_ROWS];
    float sums[MOST_COLUMNS * BLOCK_ROWS];
    for (uint segment = 0u; segment < SEGMENTS; ++segment) {
        uint end = min(segment * SEGMENT + SEGMENT, parameters.terms);
        for (uint i = 0u; i < GROUP_COLUMNS / INVOCATIONS * BLOCK_ROWS; ++i) { sums[i] = 0.0; }
        for (uint term = segment * SEGMENT; term < end; term += CHUNK) {
#ifdef IS_CHUNKED
            float terms[BLOCK_ROWS * CHUNK];
            float row_sums[BLOCK_ROWS];
            uint row_least[BLOCK_ROWS];
            [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                uint lowest = NO_LOWEST;
                row_sums[row] = 0.0;
                [[unroll]] for (uint i = 0u; i < CHUNK; i += 4u) {
                    uvec4 four = left_four(min(first_row + row, parameters.rows - 1u), term + i, end);
                    lowest = min(lowest, lowest_of_four(four));
                    [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                        terms[row * CHUNK + i + k] = uintBitsToFloat(four[k]);
                        row_sums[row] = rounded_sum(row_sums[row], uintBitsToFloat(four[k]));
                    }
                }
                row_least[row] = least_scale(lowest);
            }
#else
            float parts[BLOCK_ROWS * CHUNK * ROW_PARTS];
            float part_sums[BLOCK_ROWS * ROW_PARTS];
            float row_units[BLOCK_ROWS], row_scales[BLOCK_ROWS];
            uint rests[BLOCK_ROWS];
            [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                uvec4 terms[CHUNK / 4u];
                uint peak = 0u;
                [[unroll]] for (uint i = 0u; i < CHUNK / 4u; ++i) {
                    terms[i] = left_four(min(first_row + row, parameters.rows - 1u), term + 4u * i, end);
                    uvec4 magnitudes = terms[i] & MAGNITUDE_F32;
                    peak = max(peak, max(max(magnitudes.x, magnitudes.y), max(magnitudes.z, magnitudes.w)));
                }
                bool is_finite = peak < INFINITY_F32;
                row_units[row] = unit_of(peak);
                row_scales[row] = units_of(peak);
                rests[row] = 0u;
                [[unroll]] for (uint part = 0u; part < ROW_PARTS; ++part) {
                    part_sums[row * ROW_PARTS + part] = 0.0;
                }
                [[unroll]] for (uint i = 0u; i < CHUNK; ++i) {
                    precise float number = uintBitsToFloat(is_finite ? terms[i / 4u][i % 4u] : 0u) * row_scales[row];
                    float integer = integer_of_term(number);
                    rests[row] |= integer != number ? 1u << i : 0u;
                    uint at = (row * CHUNK + i) * ROW_PARTS;
                    int biased = int(integer) + 0x808080;
                    parts[at] = float((biased >> 16) - 128);
#if ROW_PARTS == 2
                    parts[at + 1u] = float((biased & 0xffff) - 0x8080);
#else
                    parts[at + 1u] = float((biased >> 8 & 0xff) - 128);
                    parts[at + 2u] = float((biased & 0xff) - 128);
#endif
                    [[unroll]] for (uint part = 0u; part < ROW_PARTS; ++part) {
                        precise float next = part_sums[row * ROW_PARTS + part] + parts[at + part];
                        part_sums[row * ROW_PARTS + part] = next;
                    }
                }
            }
#endif
            for (uint each = 0u; each < GROUP_COLUMNS / INVOCATIONS; ++each) {
                uint column = min(first_column + each * INVOCATIONS, parameters.columns - 1u);
#ifdef IS_CHUNKED
                uvec2 entry = entry_of(scale_at(scale_index(column, term)), zero_at(zero_index(column, term)));
                uint minimum = HAS_MINIMA ? scale_minimum(column, term) : 0u;
                uint column_word = BASE_WORD(packed) + column * PACKED_COLUMN / uint(WORD_TERMS);
                uint high[MOST_HIGH];
                [[unroll]] for (uint i = 0u; i < MOST_HIGH; ++i) {
                    high[i] = i < CHUNK_HIGH ? words_packed[column_word + high_word(term) + i] : 0u;
                }
                uint lowest = NO_LOWEST;
                float products[BLOCK_ROWS];
                [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) { products[row] = 0.0; }
                [[unroll]] for (uint i = 0u; i < CHUNK_WORDS; ++i) {
                    bool is_there = CHUNKS_ARE_WHOLE || term + i * uint(WORD_TERMS) < end;
                    uint word = is_there ? words_packed[column_word + term / uint(WORD_TERMS) + i] : 0u;
                    uint bits = HIGH_OF_WORD(high, 0u, i);
                    [[unroll]] for (uint j = 0u; j < uint(WORD_TERMS); ++j) {
                        uint integer = integer_of(word, j) | (bits >> j * HIGH_BITS & HIGH_MASK) << uint(WEIGHT_BITS);
                        precise float weight = float(int(number_of(integer))) - uintBitsToFloat(entry.y);
                        if (ZERO_KIND == ZERO_IS_FLOAT) { lowest = min(lowest, lowest_of(floatBitsToUint(weight))); }
                        [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                            products[row] = chunk_product_plus(terms[row * CHUNK + i * uint(WORD_TERMS) + j], weight, products[row]);
                        }
                    }
                }
                [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                    uint at = each * BLOCK_ROWS + row;
                    float value = value_of_chunk(products[row], row_sums[row], entry.x, minimum, row_least[row], lowest);
                    sums[at] = rounded_sum(sums[at], value);
                }
#else
                float scale = uintBitsToFloat(operand(scale_at(scale_index(column, term))));
                float less = float(ZERO_OF_BYTES(zero_at(zero_index(column, term))));
                uint column_word = BASE_WORD(packed) + (column * PACKED_COLUMN + term) / uint(WORD_TERMS);
                float products[BLOCK_ROWS * ROW_PARTS];
                [[unroll]] for (uint i = 0u; i < BLOCK_ROWS * ROW_PARTS; ++i) {
                    products[i] = 0.0;
                }
                [[unroll]] for (uint i = 0u; i < CHUNK_WORDS; ++i) {
                    bool is_there = CHUNKS_ARE_WHOLE || term + i * uint(WORD_TERMS) < end;
                    uint word = is_there ? words_packed[column_word + i] : 0u;
                    [[unroll]] for (uint j = 0u; j < uint(WORD_TERMS); ++j) {
#if WEIGHT_BITS == 8
                        float weight = float(bitfieldExtract(int(WEIGHT_BYTES(word, 0u)), int(j) * 8, 8));
#else
                        float weight = float(int(FLIPPED(word) >> (j * uint(WEIGHT_BITS)) & WEIGHT_MASK));
#endif
                        [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                            [[unroll]] for (uint part = 0u; part < ROW_PARTS; ++part) {
                                uint at = row * ROW_PARTS + part;
                                products[at] = exact_product_plus(parts[(row * CHUNK + i * uint(WORD_TERMS) + j) * ROW_PARTS + part], weight, products[at]);
                            }
                        }
                    }
                }
                [[unroll]] for (uint i = 0u; i < BLOCK_ROWS * ROW_PARTS; ++i) {
                    products[i] = exact_product_plus(-less, part_sums[i], products[i]);
                }
                [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
#if ROW_PARTS == 3
                    uvec3 biased = SUM_BIAS + uvec3(ivec3(products[row * 3], products[row * 3 + 1], products[row * 3 + 2]));
                    float number = number_of_sums(biased.x, biased.y, biased.z);
#else
                    float number = exact_product_plus(products[row * 2], 65536.0, products[row * 2 + 1]);
#endif
                    if (rests[row] != 0u) {
                        precise float with_rest = number
                            + rest_of_chunk(min(first_row + row, parameters.rows - 1u), column, 0u, term, rests[row], row_scales[row]);
                        number = with_rest;
                    }
                    uint at = each * BLOCK_ROWS + row;
                    sums[at] = rounded_sum(sums[at], value_of_chunk(number, row_units[row], scale));
                }
#endif
            }
        }
        for (uint i = 0u; i < GROUP_COLUMNS / INVOCATIONS * BLOCK_ROWS; ++i) {
            totals[i] = segment == 0u ? sums[i] : rounded_sum(totals[i], sums[i]);
        }
    }
    for (uint each = 0u; each < GROUP_COLUMNS / INVOCATIONS; ++each) {
        uint column = first_column + each * INVOCATIONS;
        [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
            if (column < parameters.columns && first_row + row < parameters.rows) {
                uint result = result_of_total(totals[each * BLOCK_ROWS + row], first_row + row, column, 0u);
                STORE(OPERAND_BITS, words_output, output_index(first_row + row, column), result);
            }
        }
    }
}
