// Convolutions for those who permit a device its own arithmetic, of FLOAT16 tensors whose channels lie behind one another: eight terms of a
// window are eight channels of one place, and eight results of a place are neighbours. Matrices as in matrix_cooperative.glsl.
//
// A work group has a tile of TILE_ROWS channels at TILE_COLUMNS places of the output, of which each of its subgroups computes RESULT_ROWS x
// RESULT_COLUMNS. Here the left matrices are the windows, and the right ones the filter, so that sums of neighbouring channels are neighbours.
// Both go through shared memory as lines of terms, STEP_TERMS at once: while they are multiplied, those that follow are on their way to
// registers. Segments as in matrix_cooperative.glsl.
//
// With HAS_EPILOGUE, matrix_epilogue.glsl's computations have the bits of the operators, by the device's conversions where these are exact.
//
// Its buffers are not `coherent`: it runs only where barriers are recorded between dispatches (dmlvk/kernels/target.py).

#include "cooperative_floats.glsl"
#define coherent
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
layout(constant_id = 40) const uint CHANNELS_OF_POSITION = 1u;
#define INNER_CHANNELS CHANNELS_OF_POSITION
// Whether the terms of every segment are whole steps.
layout(constant_id = 42) const bool STEPS_ARE_WHOLE = false;
#include "products/matrix.glsl"
#include "products/matrix_groups.glsl"
#include "products/read_operands.glsl"
#include "float16_fours.glsl"

layout(local_size_x = INVOCATIONS) in;

#define SUBGROUPS (INVOCATIONS / SUBGROUP_INVOCATIONS)
#define SUBGROUPS_ACROSS (TILE_ROWS / RESULT_ROWS)
#define SUMS_DOWN (RESULT_COLUMNS / MATRIX_ROWS)
#define SUMS_ACROSS (RESULT_ROWS / MATRIX_COLUMNS)

// Eight numbers of 16 bits are a vector. A vector behind each line moves what is loaded together to other banks.
#define STEP_VECTORS (STEP_TERMS / 8)
#define PITCH (STEP_VECTORS + 1)
#define FILTER_LINES (TILE_COLUMNS * PITCH) // behind those of windows
#define RESULT_EIGHTS (RESULT_ROWS / 8)
#define RESULT_PITCH (RESULT_ROWS / 4 + 1)
// In an iteration a subgroup delivers MATRIX_ROWS places, of which an invocation has so many, with eight channels each.
#define EIGHTS_PER_ITERATION (MATRIX_ROWS * RESULT_EIGHTS / SUBGROUP_INVOCATIONS)
#define POSITIONS_PER_ITERATION (SUBGROUP_INVOCATIONS / RESULT_EIGHTS)
#define FOURS_PER_ITERATION (POSITIONS_PER_ITERATION * RESULT_PITCH)
#define RESULTS_SPACE (SUBGROUPS * MATRIX_ROWS * RESULT_PITCH)
#define TILES_SPACE ((TILE_COLUMNS + TILE_ROWS) * PITCH)
shared uvec4 lines[TILES_SPACE > RESULTS_SPACE ? TILES_SPACE : RESULTS_SPACE];
// Of the terms that are loaded next: computed once, and not by each of the columns.
shared uvec4 term_positions[STEP_TERMS];
// Whether all terms of a step are channels of one place: then nothing has to be looked up for them, and a step begins without waiting.
#define HAS_ONE_TAP (FILTER_DEPTH * FILTER_HEIGHT * FILTER_WIDTH == 1u)
#define STEP_HAS_ONE_TAP (HAS_ONE_TAP ? STEPS_ARE_WHOLE : CHANNELS_OF_POSITION % uint(STEP_TERMS) == 0u)

// As in cooperative_loads.glsl.
#define IS_LOADED_ANYWAY (STEP_HAS_ONE_TAP && STEPS_ARE_WHOLE && LEFT_HAS_VECTORS)

#define LINES_AT_ONCE (INVOCATIONS / STEP_VECTORS)
#define WINDOW_LOADS (TILE_COLUMNS / LINES_AT_ONCE)
#define FILTER_LOADS (TILE_ROWS / LINES_AT_ONCE)

// Eight terms of a column's window; what pads it is zero, as is what lies behind the last term.
uvec4 window_eight(Column column, uint beginning, uint position)
{
    uint index = index_of_term(column, beginning, term_positions[position]);
    bool is_there = index != NOWHERE;
    uvec4 eight = read_right[(is_there ? index : column.image) >> 3u]; // without a branch, so that all are on their way at once
    return is_there ? eight : uvec4(0u);
}

// Eight terms of a row of the filter. `first` is where the row lies.
uvec4 filter_eight(Batch batch, uint row, uint first, uint term, uint end)
{
    uvec4 eight = uvec4(0u);
    if (LEFT_HAS_VECTORS) {
        if (STEPS_ARE_WHOLE || term < end) {
            eight = read_left[(first + term) >> 3u];
        }
        return eight;
    }
    [[unroll]] for (uint element = 0u; element < 8u; ++element) {
        if (term + element < end) {
            eight[element >> 1u] |= LOAD(OPERAND, words_left, left_index(batch, row, term + element)) << ((element & 1u) * 16u);
        }
    }
    return eight;
}

// What is the same for all results of a channel, of eight channels.
struct OfChannels {
    vec4 addend[2];
#if HAS_EPILOGUE
    vec4 mean[2];
    vec4 factor[2];
    vec4 bias[2];
#endif
};

OfChannels of_channels(Batch batch, uint row)
{
    OfChannels found;
    [[unroll]] for (uint element = 0u; element < 8u; ++element) {
        uint own = min(row + element, parameters.rows - 1u);
        float addend = 0.0;
        if (HAS_ADDEND) {
            addend = uintBitsToFloat(WIDE_ADDEND(LOAD(OPERAND, words_addend, addend_index(batch, own, 0u))));
        }
        found.addend[element / 4u][element % 4u] = addend;
#if HAS_EPILOGUE
        vec3 numbers = vec3(0.0);
        if (EPILOGUE_NORMALIZES) {
            uint channel = batch.channel + own;
            numbers.x = uintBitsToFloat(widened_f16(LOAD(OPERAND, words_mean, BASE(OPERAND_BITS, mean) + channel)));
            numbers.y = as_float32(words_factor[BASE(32, factor) + channel]);
            numbers.z = uintBitsToFloat(widened_f16(LOAD(OPERAND, words_bias, BASE(OPERAND_BITS, bias) + channel)));
        }
        found.mean[element / 4u][element % 4u] = numbers.x;
        found.factor[element / 4u][element % 4u] = numbers.y;
        found.bias[element / 4u][element % 4u] = numbers.z;
#endif
    }
    return found;
}

uint lowest_of(vec4 numbers)
{
    uvec4 bits = floatBitsToUint(numbers) & MAGNITUDE_F32;
    return min(min(bits.x, bits.y), min(bits.z, bits.w));
}
uint highest_of(vec4 numbers)
{
    uvec4 bits = floatBitsToUint(numbers) & MAGNITUDE_F32;
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

// Four results before RELU, in few operations. `needs_slow_path` is set for those that take more: what is not finite, and what
// shifted_and_scaled looks at. NVIDIA's compiler takes one conversion behind the other for nothing, and leaves both out: `first_segment`,
// which is zero here, is unknown to it.
uvec2 quick_four(vec4 sums, OfChannels channels, uint half_eight, uvec2 residual, inout bool needs_slow_path)
{
    precise vec4 values = sums;
    if (HAS_ADDEND) {
        values = values + channels.addend[half_eight];
    }
    uvec2 four = packed_four(values) | parameters.first_segment;
#if HAS_EPILOGUE
    if (EPILOGUE_NORMALIZES) {
        precise vec4 difference = unpacked_four(four) - channels.mean[half_eight];
        precise vec4 product = difference * channels.factor[half_eight];
        precise vec4 sum = product + channels.bias[half_eight];
        uint lowest = min(lowest_of(difference), min(lowest_of(product), lowest_of(sum)));
        needs_slow_path = needs_slow_path || lowest <= SMALLEST_NORMAL_F32 || max(highest_of(product), highest_of(sum)) >= INFINITY_F32;
        four = packed_four(sum) | parameters.first_segment;
    }
    if (EPILOGUE_ADDS) {
        precise vec4 sum = unpacked_four(four) + unpacked_four(residual);
        four = packed_four(sum) | parameters.first_segment;
    }
    if (EPILOGUE_APPLIES_SWISH) {
        needs_slow_path = needs_slow_path || (magnitudes_from_f16(four.x, INFINITY_F16) | magnitudes_from_f16(four.y, INFINITY_F16)) != 0u;
        four = packed_four(device_swish(unpacked_four(four)));
    }
#endif
    needs_slow_path = needs_slow_path || (magnitudes_from_f16(four.x, INFINITY_F16) | magnitudes_from_f16(four.y, INFINITY_F16)) != 0u;
    return four;
}

// The sum of a channel, as it stands in shared memory, or as it is defined where an infinite weight may have met padding.
uint sum_of_channel(Batch batch, uint at, uint element, uint row, uint column, uint segment)
{
    uint sum = lines[at + element / 4u][element % 4u];
    if (!is_finite(uintBitsToFloat(sum))) {
        sum = exact_sum(batch, row, column, segment * SEGMENT, min(segment * SEGMENT + SEGMENT, parameters.terms));
    }
    return sum;
}

// Eight results, whatever they are.
uvec4 any_eight(Batch batch, uint at, uint row, uint column, uint segment)
{
    uvec4 results = uvec4(0u);
    [[dont_unroll]] for (uint element = 0u; element < 8u; ++element) {
        uint sum = sum_of_channel(batch, at, element, row + element, column, segment);
        results[element / 2u] |= finished(batch, sum, row + element, column) << (element % 2u * 16u);
    }
    return results;
}

void main()
{
    uint group = work_group_index();
    if (group >= parameters.work_items) {
        return;
    }
    Position position = position_of(group);
    uint own = index_in_group();
    uint line = own / STEP_VECTORS;
    uint vector = own % STEP_VECTORS;
    uint first_column = SUBGROUP / SUBGROUPS_ACROSS * RESULT_COLUMNS;
    uint first_row = SUBGROUP % SUBGROUPS_ACROSS * RESULT_ROWS;
    Column columns[WINDOW_LOADS];
    uint beginnings[WINDOW_LOADS];
    [[unroll]] for (uint i = 0u; i < WINDOW_LOADS; ++i) {
        columns[i] = column_at(position.batch, min(position.first_column + line + i * LINES_AT_ONCE, parameters.columns - 1u));
        beginnings[i] = beginning_of(columns[i]);
    }
    uint rows[FILTER_LOADS];
    uint filters[FILTER_LOADS];
    [[unroll]] for (uint i = 0u; i < FILTER_LOADS; ++i) {
        rows[i] = min(position.first_row + line + i * LINES_AT_ONCE, parameters.rows - 1u);
        filters[i] = left_index(position.batch, rows[i], 0u);
    }
    uvec4 from_windows[WINDOW_LOADS];
    uint next[WINDOW_LOADS]; // where the next ones lie, in vectors
    bool are_there[WINDOW_LOADS];
    [[unroll]] for (uint i = 0u; i < WINDOW_LOADS; ++i) {
        next[i] = 0u;
        are_there[i] = true;
    }
    uvec4 from_filter[FILTER_LOADS];
    SUMS sums[SUMS_DOWN * SUMS_ACROSS];
    for (uint segment = position.first_segment; segment < position.end_segment; ++segment) {
        uint first = segment * SEGMENT;
        uint end = min(first + SEGMENT, parameters.terms);
        [[unroll]] for (uint i = 0u; i < SUMS_DOWN * SUMS_ACROSS; ++i) {
            sums[i] = filled_with(0.0);
        }
#define POSITION_TERMS(term) \
    if (!STEP_HAS_ONE_TAP && own < STEP_TERMS) { \
        term_positions[own] = position_of_term((term) + own, end); \
    }
// Where a step has one place, its elements lie behind those of the step before, but for the first of a place. Nothing is tested before they
// are loaded: in the place of what pads a window stands an element of the same image, until it is put down.
#define BEGINS_TAP(term) (!HAS_ONE_TAP && (CHANNELS_OF_POSITION == uint(STEP_TERMS) || (term) % CHANNELS_OF_POSITION == 0u))
#define LOAD_WINDOWS(term, is_first) \
    if (STEP_HAS_ONE_TAP) { \
        if (is_first || BEGINS_TAP(term)) { \
            uvec4 tap = position_of_term(term, end); \
            [[unroll]] for (uint i = 0u; i < WINDOW_LOADS; ++i) { \
                uint index = index_of_term(columns[i], beginnings[i], tap); \
                are_there[i] = index != NOWHERE; \
                next[i] = ((are_there[i] ? index : columns[i].image) >> 3u) + vector; \
            } \
        } \
        [[unroll]] for (uint i = 0u; i < WINDOW_LOADS; ++i) { \
            from_windows[i] = read_right[next[i]]; \
            next[i] += (term) + STEP_TERMS < end ? STEP_VECTORS : 0u; \
        } \
    } else { \
        [[unroll]] for (uint i = 0u; i < WINDOW_LOADS; ++i) { \
            from_windows[i] = window_eight(columns[i], beginnings[i], vector * 8u); \
        } \
    }
#define LOAD_TILES(term, is_first) \
    LOAD_WINDOWS(term, is_first) \
    [[unroll]] for (uint i = 0u; i < FILTER_LOADS; ++i) { \
        from_filter[i] = filter_eight(position.batch, rows[i], filters[i], (term) + vector * 8u, end); \
    }
        POSITION_TERMS(first)
        if (!STEP_HAS_ONE_TAP) {
            barrier();
        }
        LOAD_TILES(first, true)
        for (uint term = first; term < end; term += STEP_TERMS) {
            barrier(); // all are through with what was there
            [[unroll]] for (uint i = 0u; i < WINDOW_LOADS; ++i) {
                lines[(line + i * LINES_AT_ONCE) * PITCH + vector] = are_there[i] ? from_windows[i] : uvec4(0u);
            }
            [[unroll]] for (uint i = 0u; i < FILTER_LOADS; ++i) {
                lines[FILTER_LINES + (line + i * LINES_AT_ONCE) * PITCH + vector] = from_filter[i];
            }
            POSITION_TERMS(term + STEP_TERMS)
            barrier();
            uint next_term = IS_LOADED_ANYWAY ? min(term + STEP_TERMS, end - STEP_TERMS) : term + STEP_TERMS;
            if (IS_LOADED_ANYWAY || next_term < end) {
                LOAD_TILES(next_term, false)
            }
            [[unroll]] for (uint k = 0u; k < STEP_TERMS / 16; ++k) {
                LEFT_FLOATS a[SUMS_DOWN];
                [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) {
                    uint at = (first_column + i * LEFT_SIDE) * PITCH + k * 2u;
                    LOAD_LEFT_FLOATS(a[i], lines, at, BY_ROWS, PITCH)
                }
                [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) {
                    RIGHT_FLOATS b;
                    uint at = FILTER_LINES + (first_row + j * RIGHT_SIDE) * PITCH + k * 2u;
                    LOAD_RIGHT_FLOATS(b, lines, at, BY_COLUMNS, PITCH)
                    [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) {
                        sums[i * SUMS_ACROSS + j] = matrices_product_plus(a[i], b, sums[i * SUMS_ACROSS + j]);
                    }
                }
            }
        }
        uint own_eight = LANE % RESULT_EIGHTS;
        uint row = position.first_row + first_row + own_eight * 8u;
        OfChannels channels = of_channels(position.batch, row);
        barrier(); // all are through with what was there
        // One iteration behind the other, so that the slow path stands in the module once: with it written out for each, NVIDIA's compiler
        // keeps the sums in memory.
        [[dont_unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) {
            uint column = position.first_column + first_column + i * LEFT_SIDE + LANE / RESULT_EIGHTS;
            uint at = (SUBGROUP * LEFT_SIDE + LANE / RESULT_EIGHTS) * RESULT_PITCH + own_eight * 2u;
            uvec4 residuals[EIGHTS_PER_ITERATION]; // on their way while sums are stored
#if HAS_EPILOGUE
            [[unroll]] for (uint iteration = 0u; iteration < EIGHTS_PER_ITERATION; ++iteration) {
                uint own_column = column + iteration * POSITIONS_PER_ITERATION;
                if (EPILOGUE_ADDS && row < parameters.rows && own_column < parameters.columns) {
                    residuals[iteration] = fours_residual[residual_index(output_index(position.batch, row, own_column)) >> 3u];
                }
            }
#endif
            SUBGROUP_BARRIER
            [[unroll]] for (uint down = 0u; down < SUMS_DOWN; ++down) {
                if (down == i) {
                    [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) {
                        uint first_sum = SUBGROUP * LEFT_SIDE * RESULT_PITCH + j * (RIGHT_SIDE / 4u);
                        STORE_SUMS(lines, first_sum, sums[down * SUMS_ACROSS + j], RESULT_PITCH)
                    }
                }
            }
            SUBGROUP_BARRIER
            uint positions = row < parameters.rows && column < parameters.columns ? (parameters.columns - 1u - column) / POSITIONS_PER_ITERATION + 1u : 0u;
            positions = min(positions, EIGHTS_PER_ITERATION); // of the output that are this invocation's
            if (SEGMENTS_COME != ONE_SEGMENT) {
                for (uint each = 0u; each < 8u * positions; ++each) {
                    uint iteration = each / 8u;
                    uint element = each % 8u;
                    uint own_column = column + iteration * POSITIONS_PER_ITERATION;
                    uint sum = sum_of_channel(position.batch, at + iteration * FOURS_PER_ITERATION, element, row + element, own_column, segment);
                    is_complete(position.batch, sum, row + element, own_column, segment); // never: totals are written
                }
                continue;
            }
            uint slow_path = 0u; // a bit for each place
            [[unroll]] for (uint iteration = 0u; iteration < EIGHTS_PER_ITERATION; ++iteration) {
                if (iteration < positions) {
                    bool needs_slow_path = !(PACKS_TO_NEAREST_EVEN && UNPACKS_DENORMALS);
                    uint own_at = at + iteration * FOURS_PER_ITERATION;
                    uvec2 low = quick_four(uintBitsToFloat(lines[own_at]), channels, 0u, residuals[iteration].xy, needs_slow_path);
                    uvec2 high = quick_four(uintBitsToFloat(lines[own_at + 1u]), channels, 1u, residuals[iteration].zw, needs_slow_path);
                    uvec4 results = uvec4(low, high);
                    if (APPLIES_RELU) {
                        results &= ~((results >> 15u & 0x10001u) * 0xffffu);
                    }
                    fours_output[output_index(position.batch, row, column + iteration * POSITIONS_PER_ITERATION) >> 3u] = results;
                    slow_path |= needs_slow_path ? 1u << iteration : 0u;
                }
            }
            [[dont_unroll]] for (uint iteration = 0u; slow_path >> iteration != 0u; ++iteration) {
                if ((slow_path >> iteration & 1u) != 0u) {
                    uint own_column = column + iteration * POSITIONS_PER_ITERATION;
                    uvec4 results = any_eight(position.batch, at + iteration * FOURS_PER_ITERATION, row, own_column, segment);
                    fours_output[output_index(position.batch, row, own_column) >> 3u] = results;
                }
            }
        }
        barrier(); // all are through with what was there
    }
}
