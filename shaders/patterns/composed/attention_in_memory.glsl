// Scores of attention_cooperative.comp by way of shared memory, where the invocations of a row find them.

#define OF_ROW (SUBGROUP_INVOCATIONS / ROWS) // invocations that share a row
#define OWN_FOURS (KEY_BLOCK / 4 / OF_ROW)
#define FIRST_FACTOR (SUBGROUP * (ROWS / 4))
shared uvec4 row_factors[TILE_ROWS / 4];
shared float parts_of_rows[INVOCATIONS];
// What the invocations of a row have found, in two parts; `none` is what brings nothing to the other one.
#define PART_OF_ROW(part) parts_of_rows[SUBGROUP * SUBGROUP_INVOCATIONS + (part) * ROWS + LANE % ROWS]
#if OF_ROW == 4
#define HALF_OF_ROW(half_row, combined, none) combined(PART_OF_ROW(2 * half_row), PART_OF_ROW(2 * half_row + 1))
#elif OF_ROW == 2
#define HALF_OF_ROW(half_row, combined, none) PART_OF_ROW(half_row)
#else
#define HALF_OF_ROW(half_row, combined, none) (half_row == 0 ? PART_OF_ROW(0) : none)
#endif
#define BOTH(number, first, second, combined, none) \
    SUBGROUP_BARRIER \
    parts_of_rows[SUBGROUP * SUBGROUP_INVOCATIONS + LANE] = number; \
    SUBGROUP_BARRIER \
    float first = HALF_OF_ROW(0, combined, none); \
    float second = HALF_OF_ROW(1, combined, none);
#define SUM_OF(first, second) (first + second)

uvec2 as_pairs(uvec4 numbers) {
    return uvec2(float16_from_number(numbers.x) | float16_from_number(numbers.y) << 16u,
        float16_from_number(numbers.z) | float16_from_number(numbers.w) << 16u);
}

// 32 elements of all rows.
#define STORE_RESULTS(first) \
    { \
        [[unroll]] for (uint j = 0u; j < SCORE_TILES; ++j) { \
            SUMS finished = product_of_sums(results[first * 16 / MATRIX_COLUMNS + j], inverses); \
            STORE_SUMS(scores_of_rows, first_score + j * (RIGHT_SIDE / 4u), finished, SCORE_PITCH) \
        } \
        SUBGROUP_BARRIER \
        for (uint number = LANE; number < ROWS * 4u; number += SUBGROUP_INVOCATIONS) { \
            uint row = first_row + number / 4u; \
            uint vector = first * 2u + number % 4u; \
            if (row < parameters.queries && vector * 8u < VALUE_SIZE) { \
                uint at = first_score + number / 4u * SCORE_PITCH + number % 4u * 2u; \
                fours_output[output_at + row * parameters.output_row + vector] = \
                    uvec4(as_pairs(scores_of_rows[at]), as_pairs(scores_of_rows[at + 1u])); \
            } \
        } \
        SUBGROUP_BARRIER \
    }
#if HEAD_TILES > 8
#define STORE_ALL_RESULTS STORE_RESULTS(0) STORE_RESULTS(2) STORE_RESULTS(4) STORE_RESULTS(6) STORE_RESULTS(8)
#elif HEAD_TILES > 6
#define STORE_ALL_RESULTS STORE_RESULTS(0) STORE_RESULTS(2) STORE_RESULTS(4) STORE_RESULTS(6)
#elif HEAD_TILES > 4
#define STORE_ALL_RESULTS STORE_RESULTS(0) STORE_RESULTS(2) STORE_RESULTS(4)
#elif HEAD_TILES > 2
#define STORE_ALL_RESULTS STORE_RESULTS(0) STORE_RESULTS(2)
#else
#define STORE_ALL_RESULTS STORE_RESULTS(0)
#endif

#define SHARES_IN_MEMORY \
    uint own_part = LANE / ROWS; \
    uint own_line = first_score + LANE % ROWS * SCORE_PITCH; \
    uint own_row = min(first_row + LANE % ROWS, parameters.queries - 1u); \
    SUBGROUP_BARRIER /* shares that were there are in registers */ \
    [[unroll]] for (uint j = 0u; j < SCORE_TILES; ++j) { \
        STORE_SUMS(scores_of_rows, first_score + j * (RIGHT_SIDE / 4u), scores[j], SCORE_PITCH) \
    } \
    SUBGROUP_BARRIER \
    vec4 own_scores[OWN_FOURS]; \
    vec4 largest = vec4(LEAST_PEAK); \
    [[unroll]] for (uint four = 0u; four < OWN_FOURS; ++four) { \
        own_scores[four] = uintBitsToFloat(scores_of_rows[own_line + own_part * OWN_FOURS + four]) * scale; \
    } \
    if (!SCORES_ARE_PLAIN || !is_whole) { \
        [[unroll]] for (uint four = 0u; four < OWN_FOURS; ++four) { \
            [[unroll]] for (uint each = 0u; each < 4u; ++each) { \
                uint key = first + block + (own_part * OWN_FOURS + four) * 4u + each; \
                FINISH_SCORE(own_scores[four][each], own_row, key) \
            } \
        } \
    } \
    [[unroll]] for (uint four = 0u; four < OWN_FOURS; ++four) { \
        largest = max(largest, own_scores[four]); \
    } \
    float block_peak = max(max(largest.x, largest.y), max(largest.z, largest.w)); \
    BOTH(block_peak, first_peak, second_peak, max, LEAST_PEAK) \
    block_peak = max(first_peak, second_peak); \
    float next_peak = max(peaks.x, block_peak); \
    float factor = exp2(peaks.x - next_peak); \
    peaks.x = next_peak; \
    vec4 sums_of_four = vec4(0.0); \
    [[unroll]] for (uint four = 0u; four < OWN_FOURS; ++four) { \
        own_scores[four] = exp2(own_scores[four] - peaks.x); \
        sums_of_four += own_scores[four]; \
    } \
    totals.x = totals.x * factor + (sums_of_four.x + sums_of_four.y + (sums_of_four.z + sums_of_four.w)); \
    [[unroll]] for (uint four = 0u; four < OWN_FOURS; four += 2u) { \
        vec4 low = own_scores[four]; \
        vec4 high = own_scores[four + 1u]; \
        scores_of_rows[own_line + (own_part * OWN_FOURS + four) / 2u] = \
            uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw)); \
    } \
    if (own_part == 0u) { row_factors[FIRST_FACTOR + LANE % ROWS / 4u][LANE % 4u] = floatBitsToUint(factor); } \
    SUBGROUP_BARRIER \
    LOAD_SUMS_OF_ROWS(factors, row_factors, FIRST_FACTOR) \
    [[unroll]] for (uint j = 0u; j < SHARE_TILES; ++j) { \
        LOAD_LEFT_FLOATS(shares[j], scores_of_rows, first_score + j * 2u, BY_ROWS, SCORE_PITCH) \
    }

#define RESULTS_FROM_MEMORY \
    uint own_part = LANE / ROWS; \
    BOTH(totals.x, first_total, second_total, SUM_OF, 0.0) \
    float inverse = 1.0 / (first_total + second_total); \
    if (own_part == 0u) { row_factors[FIRST_FACTOR + LANE % ROWS / 4u][LANE % 4u] = floatBitsToUint(inverse); } \
    SUBGROUP_BARRIER \
    SUMS inverses; \
    LOAD_SUMS_OF_ROWS(inverses, row_factors, FIRST_FACTOR) \
    uint output_at = FIRST_VECTOR(output, batch, head); \
    STORE_ALL_RESULTS
