// FLOAT16 results of a GEMM in few operations, four neighbours at a time, by the device's conversions: each subgroup delivers its own.
// Included by matrix_cooperative.glsl.

#include "float16_fours.glsl"

// Whether addends of columns 4n to 4n + 3 lie behind one another, at multiples of four elements.
layout(constant_id = 43) const bool ADDEND_HAS_FOURS = false;

uvec2 addend_four(Batch batch, uint row, uint column) {
    uint index = addend_index(batch, row, column);
    if (ADDEND_HAS_FOURS) { return pairs_addend[index >> 2u]; }
    uvec2 four = uvec2(0u);
    [[unroll]] for (uint part = 0u; part < 4u; ++part) {
        four[part >> 1u] |= LOAD(OPERAND, words_addend, index + part * parameters.addend_column) << ((part & 1u) * 16u);
    }
    return four;
}

// What stands in quick_results behind each step but the last: NVIDIA's compiler takes one conversion behind the other for nothing, and leaves
// both out, but for a zero that it does not know.
#define AS_ROUNDED(numbers) unpacked_four(packed_four(numbers) | parameters.first_segment)

// `needs_slow_path` is set where one is not finite.
uvec2 quick_results(vec4 sums, uvec2 addend, uvec2 scale, uvec2 residual, inout bool needs_slow_path) {
    precise vec4 values = sums;
    if (!RESULTS_ARE_SUMS) { values = values * uintBitsToFloat(ALPHA); }
    if (HAS_ADDEND) {
        precise vec4 addends = unpacked_four(addend);
        if (ADDEND_IS_APART) {
            values = AS_ROUNDED(values) + addends;
        } else {
            precise vec4 products = addends * uintBitsToFloat(parameters.beta);
            values = values + products;
        }
    }
#if HAS_EPILOGUE
    if (EPILOGUE_APPLIES_GELU) {
        values = AS_ROUNDED(values);
        values = vec4(device_gelu(values.x), device_gelu(values.y), device_gelu(values.z), device_gelu(values.w));
    }
    if (EPILOGUE_SCALES) { values = AS_ROUNDED(values) * unpacked_four(scale); }
    if (EPILOGUE_ADDS) { values = AS_ROUNDED(values) + unpacked_four(residual); }
#endif
    uvec2 results = packed_four(values);
    needs_slow_path = needs_slow_path || (magnitudes_from_f16(results.x, INFINITY_F16) | magnitudes_from_f16(results.y, INFINITY_F16)) != 0u;
    return APPLIES_RELU ? results & ~((results >> 15u & 0x10001u) * 0xffffu) : results;
}

// Four results, whatever they are.
uvec2 any_results(Batch batch, uvec4 sums, uint row, uint column) {
    uvec2 results = uvec2(0u);
    [[dont_unroll]] for (uint part = 0u; part < 4u; ++part) {
        results[part >> 1u] |= finished(batch, sums[part], row, column + part) << ((part & 1u) * 16u);
    }
    return results;
}

#if HAS_EPILOGUE
#define RESIDUAL_FOUR(index) (EPILOGUE_ADDS ? pairs_residual[residual_index(index) >> 2u] : uvec2(0u))
#define SCALE_FOUR(column) (EPILOGUE_SCALES ? pairs_scale[scale_index(column) >> 2u] : uvec2(0u))
#else
#define SCALE_FOUR(column) uvec2(0u)
#define RESIDUAL_FOUR(index) uvec2(0u)
#endif

// MATRIX_ROWS of a subgroup's results at a time, which go through shared memory, RESULT_PITCH vectors apart; in an iteration it delivers ROWS_OF_ITERATION of
// them. What is added is on its way while sums are stored. One loop behind the other, so that what is done with sums stands in the module once.
#define ROWS_OF_ITERATION (SUBGROUP_INVOCATIONS / RESULT_FOURS)
#define ITERATIONS (MATRIX_ROWS / ROWS_OF_ITERATION)
#define DELIVER_QUICKLY \
    uint own_column = tile_column + first_column + LANE % RESULT_FOURS * 4u; \
    uint own_line = SUBGROUP * LEFT_SIDE + LANE / RESULT_FOURS; \
    uint own_at = own_line * RESULT_PITCH + LANE % RESULT_FOURS; \
    bool has_column = own_column >= position.first_column && own_column < parameters.columns; \
    uvec2 own_scale = has_column ? SCALE_FOUR(own_column) : uvec2(0u); \
    barrier(); /* all are through with what was there */ \
    [[dont_unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) { \
        uint own_row = tile_row + first_row + i * LEFT_SIDE + LANE / RESULT_FOURS; \
        uvec2 addends[ITERATIONS], residuals[ITERATIONS]; \
        uint there = 0u; /* a bit for each iteration, as of the slow path */ \
        [[unroll]] for (uint iteration = 0u; iteration < ITERATIONS; ++iteration) { \
            uint row = own_row + iteration * ROWS_OF_ITERATION; \
            if (has_column && row >= position.first_row && row < parameters.rows) { \
                there |= 1u << iteration; \
                addends[iteration] = HAS_ADDEND ? addend_four(position.batch, row, own_column) : uvec2(0u); \
                residuals[iteration] = RESIDUAL_FOUR(output_index(position.batch, row, own_column)); \
            } \
        } \
        SUBGROUP_BARRIER \
        [[unroll]] for (uint down = 0u; down < SUMS_DOWN; ++down) { \
            if (down == i) { \
                [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) { \
                    uint first_sum = SUBGROUP * LEFT_SIDE * RESULT_PITCH + j * (RIGHT_SIDE / 4u); \
                    STORE_SUMS(lines, first_sum, sums[down * SUMS_ACROSS + j], RESULT_PITCH) \
                } \
            } \
        } \
        SUBGROUP_BARRIER \
        uint slow_path = 0u; \
        [[unroll]] for (uint iteration = 0u; iteration < ITERATIONS; ++iteration) { \
            if ((there >> iteration & 1u) != 0u) { \
                bool needs_slow_path = !(PACKS_TO_NEAREST_EVEN && UNPACKS_DENORMALS); \
                vec4 own_sums = uintBitsToFloat(lines[own_at + iteration * ROWS_OF_ITERATION * RESULT_PITCH]); \
                uvec2 results = quick_results(own_sums, addends[iteration], own_scale, residuals[iteration], needs_slow_path); \
                pairs_output[output_index(position.batch, own_row + iteration * ROWS_OF_ITERATION, own_column) >> 2u] = results; \
                slow_path |= needs_slow_path ? 1u << iteration : 0u; \
            } \
        } \
        [[dont_unroll]] for (uint iteration = 0u; slow_path >> iteration != 0u; ++iteration) { \
            if ((slow_path >> iteration & 1u) != 0u) { \
                uint row = own_row + iteration * ROWS_OF_ITERATION; \
                uvec2 results = any_results(position.batch, lines[own_at + iteration * ROWS_OF_ITERATION * RESULT_PITCH], row, own_column); \
                pairs_output[output_index(position.batch, row, own_column) >> 2u] = results; \
            } \
        } \
    }
