// Scores of attention_cooperative.comp where they are: an invocation has eight of each matrix, of two rows, which three neighbours share.

#define SHARES_IN_REGISTERS \
    vec4 own_scores[2 * SCORE_TILES]; \
    [[unroll]] for (uint j = 0u; j < SCORE_TILES; ++j) { \
        ELEMENTS_OF(scores[j], own_scores[2u * j], own_scores[2u * j + 1u]) \
    } \
    [[unroll]] for (uint four = 0u; four < 2 * SCORE_TILES; ++four) { \
        own_scores[four] *= scale; \
    } \
    if (!SCORES_ARE_PLAIN || !is_whole) { \
        [[unroll]] for (uint four = 0u; four < 2 * SCORE_TILES; ++four) { \
            uint own_row = min(first_row + QUAD_ROW(four & 1u), parameters.queries - 1u); \
            [[unroll]] for (uint each = 0u; each < 4u; ++each) { \
                uint key = first + block + (four >> 1u) * SIDE + QUAD_COLUMN(each); \
                FINISH_SCORE(own_scores[four][each], own_row, key) \
            } \
        } \
    } \
    vec2 next_peaks = peaks; \
    [[unroll]] for (uint j = 0u; j < SCORE_TILES; ++j) { \
        vec4 upper = own_scores[2u * j]; \
        vec4 lower = own_scores[2u * j + 1u]; \
        next_peaks.x = max(next_peaks.x, max(max(upper.x, upper.y), max(upper.z, upper.w))); \
        next_peaks.y = max(next_peaks.y, max(max(lower.x, lower.y), max(lower.z, lower.w))); \
    } \
    LARGEST_OF_QUAD(next_peaks) \
    vec2 factors_of_rows = exp2(peaks - next_peaks); \
    peaks = next_peaks; \
    totals *= factors_of_rows; \
    [[unroll]] for (uint j = 0u; j < SCORE_TILES; ++j) { \
        vec4 upper = exp2(own_scores[2u * j] - peaks.x); \
        vec4 lower = exp2(own_scores[2u * j + 1u] - peaks.y); \
        totals += vec2(upper.x + upper.y + (upper.z + upper.w), lower.x + lower.y + (lower.z + lower.w)); \
        LEFT_OF_ELEMENTS(shares[j], upper, lower) \
    } \
    SUMS_OF_ROWS(factors, factors_of_rows.x, factors_of_rows.y)

// Two pairs of neighbouring results.
#define STORE_ROW(is_lower, numbers) \
    { \
        uint row = first_row + QUAD_ROW(is_lower); \
        uint element = k * SIDE + QUAD_COLUMN(0u); \
        uvec4 bits = floatBitsToUint(numbers); \
        uint at = output_at + row * parameters.output_row * 4u + element / 2u; \
        if (row < parameters.queries && element < VALUE_SIZE) { \
            words_output[at] = float16_from_number(bits.x) | float16_from_number(bits.y) << 16u; \
        } \
        if (row < parameters.queries && element + 8u < VALUE_SIZE) { \
            words_output[at + 4u] = float16_from_number(bits.z) | float16_from_number(bits.w) << 16u; \
        } \
    }
#define RESULTS_FROM_REGISTERS \
    SUM_OF_QUAD(totals) \
    vec2 inverses = 1.0 / totals; \
    uint output_at = FIRST_VECTOR(output, batch, head) * 4u; \
    [[unroll]] for (uint k = 0u; k < HEAD_TILES; ++k) { \
        vec4 upper, lower; \
        ELEMENTS_OF(results[k], upper, lower) \
        STORE_ROW(0u, upper * inverses.x) \
        STORE_ROW(1u, lower * inverses.y) \
    }
