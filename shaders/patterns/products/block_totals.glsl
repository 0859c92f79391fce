// Adds what packed_matrices.glsl, chunk_tiles.glsl or block_matrices.glsl made of parts, in their order, and finishes the results. The compile
// script passes what block_products.glsl is passed, with HAS_PARTS; of integers or chunks what packed_integers.glsl or packed_chunks.glsl is.
#ifdef IS_CHUNKED
#include "products/packed_chunks.glsl"
#elif defined(CHUNK)
#include "products/packed_integers.glsl"
#else
#include "products/block_products.glsl"
#endif

layout(local_size_x = 256) in;

#define SEGMENTS_AT_ONCE 4u
#define PARTS ((parameters.terms + (PART_TERMS - 1u)) / PART_TERMS)

uint total_of(uint row, uint column, uint number, uint offset, uint step) {
    uint total = 0u;
    [[dont_unroll]] for (uint first = 0u; first < PARTS; first += SEGMENTS_AT_ONCE) {
        uint sums[SEGMENTS_AT_ONCE];
        [[unroll]] for (uint i = 0u; i < SEGMENTS_AT_ONCE; ++i) {
            sums[i] = words_parts[BASE_WORD(parts) + min(first + i, PARTS - 1u) * step + offset];
        }
        [[unroll]] for (uint i = 0u; i < SEGMENTS_AT_ONCE; ++i) {
            if (first + i < PARTS) {
#ifndef CHUNK
                if (!is_finite(uintBitsToFloat(sums[i]))) {
                    uint from = (first + i) * PART_TERMS;
                    sums[i] = exact_sum(row, column, number, from, min(from + PART_TERMS, parameters.terms));
                }
#endif
                total = first + i == 0u ? sums[i] : sum_plus(total, sums[i]);
            }
        }
    }
#ifdef IS_CHUNKED
    if (!is_finite(uintBitsToFloat(total))) { total = exact_total(row, column, number); }
#elif defined(CHUNK)
    if (!is_finite(uintBitsToFloat(total))) {
        float by_terms = total_of_terms(row, column, number);
        total = is_finite(by_terms) ? floatBitsToUint(by_terms) : plain_total(row, column, number);
    }
#endif
    return total;
}

uint result_at(uint row, uint column) {
#ifdef IS_GATED
    uint line = 2u * parameters.columns; // sums of the gate first
    uint gate = finished(total_of(row, column, 0u, row * line + column, parameters.rows * line), row, column);
    uint up = finished(total_of(row, column, 1u, row * line + parameters.columns + column, parameters.rows * line), row, column);
    return gated(gate, up);
#else
    uint line = parameters.columns;
    return finished(total_of(row, column, 0u, row * line + column, parameters.rows * line), row, column);
#endif
}

void main() {
    WORK_ITEM(item)
    uint items_of_row = OUTPUT_HAS_PAIRS ? parameters.columns / 2u : parameters.columns;
    uint row = item / items_of_row;
    uint column = (item - row * items_of_row) * (OUTPUT_HAS_PAIRS ? 2u : 1u);
    uint result = result_at(row, column);
    if (OUTPUT_HAS_PAIRS) {
        words_output[output_index(row, column) >> 1u] = result | result_at(row, column + 1u) << 16u;
    } else {
        STORE(OPERAND_BITS, words_output, output_index(row, column), result);
    }
}
