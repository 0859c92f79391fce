// Products of few rows with packed weights, on processors: each invocation has a column of BLOCK_ROWS rows and goes through its words,
// without shared memory.
//
// The compile script passes BLOCK_ROWS, INVOCATIONS and what block_products.glsl is passed.
#include "products/block_products.glsl"

layout(local_size_x = INVOCATIONS) in;

#if LOOKS_AT_DENORMALS
#define LOOK_AT_LEFT(bits) left_lowest = min(left_lowest, lowest_of_four(bits));
#else
#define LOOK_AT_LEFT(bits)
#endif

void main() {
    WORK_GROUP(group)
    uint first_row = group % parameters.row_tiles * BLOCK_ROWS;
    uint own_column = group / parameters.row_tiles * INVOCATIONS + index_in_group();
    // What lies outside is computed with what lies at the edge, and not stored.
    uint column = min(own_column, parameters.columns - 1u);
    uint rows[BLOCK_ROWS], totals[BLOCK_ROWS];
    [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
        rows[row] = min(first_row + row, parameters.rows - 1u);
        totals[row] = 0u;
    }
    uint column_word = BASE_WORD(packed) + column * PACKED_COLUMN / uint(WORD_TERMS);
    for (uint segment = 0u; segment < SEGMENTS; ++segment) {
        uint first = segment * SEGMENT;
        uint end = min(first + SEGMENT, parameters.terms);
        float sums[BLOCK_ROWS];
        [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
            sums[row] = 0.0;
        }
#if LOOKS_AT_DENORMALS
        uint left_lowest = NO_LOWEST;
        uint scale_lowest = NO_LOWEST;
        uint own_difference_lowest = NO_LOWEST;
#endif
        for (uint block = first; block < end; block += min(BLOCK, SEGMENT)) {
            uvec2 entry = entry_of(scale_at(scale_index(column, block)), zero_at(zero_index(column, block)));
#if LOOKS_AT_DENORMALS
            scale_lowest = min(scale_lowest, lowest_of(entry.x));
#endif
            uint block_end = min(block + min(BLOCK, SEGMENT), end);
            for (uint term = block; term < block_end; term += WORD_TERMS) {
                uint word = words_packed[column_word + term / uint(WORD_TERMS)];
                uint high = 0u;
                if (HIGH_BITS != 0u) { high = high_of(words_packed[column_word + high_word(term)], term); }
                float weights[WORD_TERMS];
                WEIGHTS_OF(word, high, entry, weights, 0u)
                [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                    [[unroll]] for (uint four = 0u; four < WORD_TERMS; four += 4u) {
                        uvec4 bits = left_four(rows[row], term + four, end);
                        LOOK_AT_LEFT(bits)
                        [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                            sums[row] = product_plus(uintBitsToFloat(bits[k]), weights[four + k], sums[row]);
                        }
                    }
                }
            }
        }
        bool plain = true;
#if LOOKS_AT_DENORMALS
        plain = is_free_of_denormals(left_lowest, scale_lowest, ZERO_KIND == ZERO_IS_FLOAT ? own_difference_lowest : 0u);
#endif
        [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
            uint sum = floatBitsToUint(sums[row]);
            if (!(plain && is_finite(sums[row]))) { sum = exact_sum(rows[row], column, 0u, first, end); }
            totals[row] = segment == 0u ? sum : sum_plus(totals[row], sum);
        }
    }
    [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
        if (own_column < parameters.columns && first_row + row < parameters.rows) {
            STORE(OPERAND_BITS, words_output, output_index(first_row + row, column), finished(totals[row], first_row + row, column));
        }
    }
}
