// Products of rows with packed weights chunk by chunk, on processors: an invocation has a lane of columns and BLOCK_ROWS rows, and
// GROUP_COLUMNS / INVOCATIONS columns, without shared memory.
//
// The compile script passes BLOCK_ROWS, INVOCATIONS, MOST_COLUMNS (columns of an invocation) and what packed_chunks.glsl is passed.
#include "products/packed_chunks.glsl"

layout(local_size_x = INVOCATIONS) in;

layout(constant_id = 20) const uint GROUP_COLUMNS = 1u; // a multiple of INVOCATIONS
// Whether all chunks are whole.
layout(constant_id = 21) const bool CHUNKS_ARE_WHOLE = false;

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
            for (uint each = 0u; each < GROUP_COLUMNS / INVOCATIONS; ++each) {
                uint column = min(first_column + each * INVOCATIONS, parameters.columns - 1u);
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
