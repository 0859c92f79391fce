// Products of few rows, which wait for the right operand: it is used too rarely to go through shared memory. Each invocation has
// BLOCK_COLUMNS neighbouring columns of all BLOCK_ROWS rows, and loads TERMS_AT_ONCE terms of them before it needs the first one;
// the left operand, which all invocations read alike, goes through shared memory, STAGE_TERMS terms at a time.
//
// The compile script passes BLOCK_ROWS, BLOCK_COLUMNS (1 or 4), TERMS_AT_ONCE (a multiple of 4), STAGE_TERMS (a multiple of
// TERMS_AT_ONCE that divides a segment) and INVOCATIONS.
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#include "products/matrix.glsl"
#include "products/matrix_fours.glsl"
#define TILE_ROWS BLOCK_ROWS
#define TILE_COLUMNS (INVOCATIONS * BLOCK_COLUMNS)
#include "products/matrix_groups.glsl"
#define OWN_COLUMNS BLOCK_COLUMNS
#include "products/matrix_right_terms.glsl"

layout(local_size_x = INVOCATIONS) in;

shared vec4 stage[BLOCK_ROWS * STAGE_TERMS / 4];
#if LOOKS_AT_DENORMALS
shared uint left_lowest;
#endif

void main() {
    WORK_GROUP(group)
    uint invocation = index_in_group();
    Position position = position_of(group);
    Batch batch = position.batch;
    uint first_column = position.first_column + invocation * BLOCK_COLUMNS;
    FIND_COLUMNS(first_column)
    Four loaded[TERMS_AT_ONCE * BLOCK_COLUMNS / 4];
    float right[TERMS_AT_ONCE * BLOCK_COLUMNS];
    float sums[BLOCK_ROWS * BLOCK_COLUMNS];
    for (uint segment = position.first_segment; segment < position.end_segment; ++segment) {
        uint first = segment * SEGMENT;
        uint end = min(first + SEGMENT, parameters.terms);
#if LOOKS_AT_DENORMALS
        uint own_left_lowest = NO_LOWEST;
        uint right_lowest = NO_LOWEST;
        if (invocation == 0u) { left_lowest = NO_LOWEST; }
#endif
        [[unroll]] for (uint i = 0u; i < BLOCK_ROWS * BLOCK_COLUMNS; ++i) {
            sums[i] = 0.0;
        }
        for (uint stage_term = first; stage_term < end; stage_term += STAGE_TERMS) {
            barrier(); // all are through with what was there
            for (uint number = invocation; number < BLOCK_ROWS * STAGE_TERMS; number += INVOCATIONS) {
                uint row = LEFT_ALONG_TERMS ? number / STAGE_TERMS : number % BLOCK_ROWS;
                uint term = LEFT_ALONG_TERMS ? number % STAGE_TERMS : number / BLOCK_ROWS;
                uint bits = PADDING;
                if (stage_term + term < end) {
                    bits = left_bits(batch, min(position.first_row + row, parameters.rows - 1u), stage_term + term);
                }
#if LOOKS_AT_DENORMALS
                own_left_lowest = min(own_left_lowest, lowest_of(bits));
#endif
                stage[(row * STAGE_TERMS + term) / 4u][term & 3u] = uintBitsToFloat(bits);
            }
            barrier();
            uint stage_end = min(stage_term + STAGE_TERMS, end);
            for (uint term = stage_term; term < stage_end; term += TERMS_AT_ONCE) {
                LOAD_RIGHT(term)
                // Fours lie across columns or along terms.
                [[unroll]] for (uint number = 0u; number < TERMS_AT_ONCE * BLOCK_COLUMNS / 4; ++number) {
                    uvec4 bits = operands_of(loaded[number], RIGHT_HAS_VECTORS && (RIGHT_ALONG_TERMS || BLOCK_COLUMNS == 4));
                    LOOK_AT(right_lowest, bits)
                    [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                        if (LOADS_COLUMNS_AT_ONCE) {
                            right[number * 4u + k] = uintBitsToFloat(bits[k]);
                        } else {
                            right[(number / BLOCK_COLUMNS * 4u + k) * BLOCK_COLUMNS + number % BLOCK_COLUMNS] =
                                uintBitsToFloat(bits[k]);
                        }
                    }
                }
                [[unroll]] for (uint i = 0u; i < TERMS_AT_ONCE; i += 4u) {
                    [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                        vec4 a = stage[(row * STAGE_TERMS + (term - stage_term) + i) / 4u];
                        [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                            [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                                float b = right[(i + k) * BLOCK_COLUMNS + j];
                                uint sum = row * BLOCK_COLUMNS + j;
                                sums[sum] = product_plus(a[k], b, sums[sum]);
                            }
                        }
                    }
                }
            }
        }
        bool plain = true;
#if LOOKS_AT_DENORMALS
        atomicMin(left_lowest, own_left_lowest);
        barrier();
        plain = has_no_denormals(left_lowest, right_lowest);
#endif
        // In a loop: what a result takes is long, and would be copied for each of them.
        uint word = 0u;
        for (uint number = 0u; number < BLOCK_ROWS * BLOCK_COLUMNS; ++number) {
            uint sum = 0u;
            [[unroll]] for (uint i = 0u; i < BLOCK_ROWS * BLOCK_COLUMNS; ++i) {
                sum = number == i ? floatBitsToUint(sums[i]) : sum;
            }
            uint row = position.first_row + number / BLOCK_COLUMNS;
            uint column = first_column + number % BLOCK_COLUMNS;
            if (row < parameters.rows && column < parameters.columns) {
                if (!plain || !is_finite(uintBitsToFloat(sum))) { sum = exact_sum(batch, row, column, first, end); }
                if (is_complete(batch, sum, row, column, segment)) {
                    uint result = finished(batch, sum, row, column);
#if OPERAND_BITS == 16 && BLOCK_COLUMNS > 1
                    if (OUTPUT_HAS_PAIRS) {
                        word = number % 2u == 0u ? result : word | result << 16u;
                        if (number % 2u == 1u) { words_output[output_index(batch, row, column) >> 1u] = word; }
                    } else {
                        store_result(batch, result, row, column);
                    }
#else
                    store_result(batch, result, row, column);
#endif
                }
            }
        }
        barrier(); // all have read the lowest
    }
}
