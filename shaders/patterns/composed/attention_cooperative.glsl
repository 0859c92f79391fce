// Attention for those who permit a device its own arithmetic: FLOAT16 matrices of 16 x 16, which a subgroup of 32 invocations holds together,
// and sums in FLOAT32. Scores are never in memory: those of a block of keys become shares, are multiplied with the values, and what was
// there before is scaled when a row's peak has grown (M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018;
// T. Dao, D. Y. Fu, S. Ermon, A. Rudra, C. Ré, "FlashAttention: fast and memory-efficient exact attention with IO-awareness", 2022).
//
// A work group has TILE_ROWS queries of a head, of which each of its subgroups has ROWS: the matrices of its queries and of its results stay
// in registers. Keys and values go through shared memory, KEYS at once, and each subgroup makes the scores of KEY_BLOCK of them at a time:
// they are turned into shares by the invocations of a row, which is what they are in shared memory for.
//
// Its buffers are not `coherent`: it runs only where barriers are recorded between dispatches (dmlvk/kernels/target.py).
//
// The compile script passes HEAD_TILES (of 16 elements of a head), SUBGROUPS, and KEYS, a multiple of KEY_BLOCK.
#ifndef ATTENTION_COOPERATIVE_GLSL
#define ATTENTION_COOPERATIVE_GLSL

#define OPERAND_BITS 16
#include "cooperative_floats.glsl"
#extension GL_EXT_control_flow_attributes : require
#define coherent

#define INVOCATIONS (32 * SUBGROUPS)
layout(local_size_x = INVOCATIONS) in;

layout(push_constant) uniform Parameters {
    uint base_query; // where operands begin in their buffers, in words
    uint base_key;
    uint base_value;
    uint base_bias;
    uint base_mask;
    uint base_output;
    uint work_items; // work groups
    uint heads;
    uint queries;
    uint keys;
    uint scale; // of scores as powers of two, a float32
    uint query_batch; // steps, in vectors of eight elements
    uint query_head;
    uint query_row;
    uint key_batch;
    uint key_head;
    uint key_row;
    uint value_batch;
    uint value_head;
    uint value_row;
    uint output_batch;
    uint output_head;
    uint output_row;
    uint bias_batch; // steps, in elements
    uint bias_head;
    uint bias_row;
    uint bias_key;
    uint mask_batch;
    uint mask_head;
    uint mask_row;
    uint mask_key;
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, query)
BUFFER(1, key)
BUFFER(2, value)
BUFFER(3, bias)
BUFFER(4, mask)
BUFFER(5, output)

layout(constant_id = 2) const uint SIZE = 64u; // of a head of queries and keys, and of values: multiples of eight
layout(constant_id = 3) const uint VALUE_SIZE = 64u;
layout(constant_id = 4) const uint GROUP = 1u; // heads of queries for each head of keys
layout(constant_id = 5) const bool HAS_BIAS = false; // what is added to scores
layout(constant_id = 6) const bool HAS_MASK = false;

#include "float16.glsl"

#define ROWS 16
#define TILE_ROWS (ROWS * SUBGROUPS)
#define OF_ROW 2 // invocations that share a row
#define KEY_BLOCK 32
#define OWN_FOURS (KEY_BLOCK / 4 / OF_ROW)
#define SCORE_TILES (KEY_BLOCK / 16)

// In vectors of eight FLOAT16 or four FLOAT32; one behind each line moves what is loaded together to other banks.
#define HEAD_VECTORS (2 * HEAD_TILES)
#define HEAD_PITCH (HEAD_VECTORS + 1)
#define SCORE_PITCH (KEY_BLOCK / 4 + 1)
shared uvec4 scores_of_rows[TILE_ROWS * SCORE_PITCH]; // then their shares; before, queries; in the end, results
shared uvec4 lines_of_keys[KEYS * HEAD_PITCH];
shared uvec4 lines_of_values[KEYS * HEAD_PITCH];
shared uvec4 row_factors[TILE_ROWS / 4];
shared float parts_of_rows[INVOCATIONS];
// What the two invocations of a row have found.
#define BOTH(number, first, second) \
    SUBGROUP_BARRIER \
    parts_of_rows[SUBGROUP * 32u + LANE] = number; \
    SUBGROUP_BARRIER \
    float first = parts_of_rows[SUBGROUP * 32u + LANE % ROWS]; \
    float second = parts_of_rows[SUBGROUP * 32u + ROWS + LANE % ROWS];

#define LOADS (KEYS * HEAD_VECTORS / INVOCATIONS)
// The lines of keys or values from one on that an invocation stores next, with zeros behind the last one and behind the last element.
#define LOAD_LINES(name, into, at, size, first) \
    [[unroll]] for (uint i = 0u; i < LOADS; ++i) { \
        uint line = (first) + (own + i * INVOCATIONS) / HEAD_VECTORS; \
        uint vector = (own + i * INVOCATIONS) % HEAD_VECTORS; \
        bool is_there = line < parameters.keys && vector * 8u < size; \
        into[i] = is_there ? fours_##name[(at) + line * parameters.name##_row + vector] : uvec4(0u); \
    }
#define PUT_LINES(lines, from) \
    [[unroll]] for (uint i = 0u; i < LOADS; ++i) { \
        lines[(own + i * INVOCATIONS) / HEAD_VECTORS * HEAD_PITCH + (own + i * INVOCATIONS) % HEAD_VECTORS] = from[i]; \
    }

#define FIRST_VECTOR(name, batch, head) \
    ((BASE_WORD(name) >> 2u) + (batch) * parameters.name##_batch + (head) * parameters.name##_head)

// What is added to a score, as a power of two.
const float BINARY_LOGARITHM_OF_E = 1.44269504;
float half_of(uint word, uint index) { return uintBitsToFloat(float32_from_float16((word >> ((index & 1u) * 16u)) & 0xffffu)); }
#define PUT_ADDED(name, row, key, score) \
    { \
        uint index = first_##name + (row) * parameters.name##_row + (key) * parameters.name##_key; \
        score += half_of(words_##name[index >> 1u], index) * BINARY_LOGARITHM_OF_E; \
    }

// A peak that no score is below, but -infinity: what is less than it by infinity has no share, and no difference is NaN.
const float LEAST_PEAK = -3.0e38;

// Written out, as loops with barriers are not unrolled by every driver, and matrices that a loop counts are in memory then.
#define LOAD_QUERIES(first, count) \
    { \
        SUBGROUP_BARRIER \
        for (uint number = LANE; number < ROWS * 8u; number += 32u) { \
            uint row = first_row + number / 8u; \
            uint vector = first * 2u + number % 8u; \
            bool is_there = row < parameters.queries && vector * 8u < SIZE; \
            scores_of_rows[first_score + number / 8u * SCORE_PITCH + number % 8u] = \
                is_there ? fours_query[query_at + row * parameters.query_row + vector] : uvec4(0u); \
        } \
        SUBGROUP_BARRIER \
        [[unroll]] for (uint k = 0u; k < count; ++k) { \
            LOAD_LEFT_FLOATS(query[first + k], scores_of_rows, first_score + k * 2u, BY_ROWS, SCORE_PITCH) \
        } \
    }
// 32 elements of all rows.
#define STORE_RESULTS(first) \
    { \
        [[unroll]] for (uint j = 0u; j < 2u; ++j) { \
            SUMS finished = product_of_sums(results[first + j], inverses); \
            STORE_SUMS(scores_of_rows, first_score + j * 4u, finished, SCORE_PITCH) \
        } \
        SUBGROUP_BARRIER \
        for (uint number = LANE; number < ROWS * 4u; number += 32u) { \
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
uvec2 as_pairs(uvec4 numbers)
{
    return uvec2(float16_from_number(numbers.x) | float16_from_number(numbers.y) << 16u,
        float16_from_number(numbers.z) | float16_from_number(numbers.w) << 16u);
}

void main()
{
    uint group = work_group_index();
    if (group >= parameters.work_items) {
        return;
    }
    uint tiles = (parameters.queries + uint(TILE_ROWS) - 1u) / uint(TILE_ROWS);
    uint head = group / tiles % parameters.heads;
    uint batch = group / tiles / parameters.heads;
    uint own = index_in_group();
    uint first_row = group % tiles * TILE_ROWS + SUBGROUP * ROWS; // of the subgroup
    uint first_score = SUBGROUP * ROWS * SCORE_PITCH;
    uint first_factor = SUBGROUP * (ROWS / 4);
    uint query_at = FIRST_VECTOR(query, batch, head);
    uint key_at = FIRST_VECTOR(key, batch, head / GROUP);
    uint value_at = FIRST_VECTOR(value, batch, head / GROUP);
    uint first_bias = BASE_16(BASE_WORD(bias)) + batch * parameters.bias_batch + head * parameters.bias_head;
    uint first_mask = BASE_16(BASE_WORD(mask)) + batch * parameters.mask_batch + head * parameters.mask_head;
    float scale = uintBitsToFloat(parameters.scale);

    uvec4 of_keys[LOADS];
    uvec4 of_values[LOADS];
    LOAD_LINES(key, of_keys, key_at, SIZE, 0u)
    LOAD_LINES(value, of_values, value_at, VALUE_SIZE, 0u)
    LEFT_FLOATS query[HEAD_TILES];
    LOAD_QUERIES(0, (HEAD_TILES < 4 ? HEAD_TILES : 4))
#if HEAD_TILES > 4
    LOAD_QUERIES(4, (HEAD_TILES < 8 ? HEAD_TILES - 4 : 4))
#endif
#if HEAD_TILES > 8
    LOAD_QUERIES(8, (HEAD_TILES - 8))
#endif
    SUMS results[HEAD_TILES];
    [[unroll]] for (uint i = 0u; i < HEAD_TILES; ++i) {
        results[i] = filled_with(0.0);
    }
    uint own_row = first_row + LANE % ROWS;
    uint own_part = LANE / ROWS;
    uint own_line = first_score + LANE % ROWS * SCORE_PITCH;
    uint row_in_bounds = min(own_row, parameters.queries - 1u);
    float peak = LEAST_PEAK;
    float total = 0.0;
    for (uint first = 0u; first < parameters.keys; first += KEYS) {
        barrier(); // all are through with what was there
        PUT_LINES(lines_of_keys, of_keys)
        PUT_LINES(lines_of_values, of_values)
        barrier();
        if (first + KEYS < parameters.keys) {
            LOAD_LINES(key, of_keys, key_at, SIZE, first + KEYS)
            LOAD_LINES(value, of_values, value_at, VALUE_SIZE, first + KEYS)
        }
        for (uint block = 0u; block < KEYS && first + block < parameters.keys; block += KEY_BLOCK) {
            SUMS scores[SCORE_TILES];
            [[unroll]] for (uint i = 0u; i < SCORE_TILES; ++i) {
                scores[i] = filled_with(0.0);
            }
            [[unroll]] for (uint k = 0u; k < HEAD_TILES; ++k) {
                [[unroll]] for (uint j = 0u; j < SCORE_TILES; ++j) {
                    RIGHT_FLOATS keys;
                    LOAD_RIGHT_FLOATS(keys, lines_of_keys, (block + j * SIDE) * HEAD_PITCH + k * 2u, BY_COLUMNS, HEAD_PITCH)
                    scores[j] = matrices_product_plus(query[k], keys, scores[j]);
                }
            }
            SUBGROUP_BARRIER // shares that were there are in registers
            [[unroll]] for (uint j = 0u; j < SCORE_TILES; ++j) {
                STORE_SUMS(scores_of_rows, first_score + j * 4u, scores[j], SCORE_PITCH)
            }
            SUBGROUP_BARRIER
            vec4 own_scores[OWN_FOURS];
            vec4 peaks = vec4(LEAST_PEAK);
            bool is_whole = first + block + KEY_BLOCK <= parameters.keys;
            [[unroll]] for (uint four = 0u; four < OWN_FOURS; ++four) {
                own_scores[four] = uintBitsToFloat(scores_of_rows[own_line + own_part * OWN_FOURS + four]) * scale;
            }
            if (HAS_BIAS || HAS_MASK || !is_whole) {
                [[unroll]] for (uint four = 0u; four < OWN_FOURS; ++four) {
                    [[unroll]] for (uint each = 0u; each < 4u; ++each) {
                        uint key = first + block + (own_part * OWN_FOURS + four) * 4u + each;
                        uint key_in_bounds = min(key, parameters.keys - 1u);
                        if (HAS_BIAS) {
                            PUT_ADDED(bias, row_in_bounds, key_in_bounds, own_scores[four][each])
                        }
                        if (HAS_MASK) {
                            PUT_ADDED(mask, row_in_bounds, key_in_bounds, own_scores[four][each])
                        }
                        own_scores[four][each] = key < parameters.keys ? own_scores[four][each] : uintBitsToFloat(0xff800000u);
                    }
                }
            }
            [[unroll]] for (uint four = 0u; four < OWN_FOURS; ++four) {
                peaks = max(peaks, own_scores[four]);
            }
            float block_peak = max(max(peaks.x, peaks.y), max(peaks.z, peaks.w));
            BOTH(block_peak, first_peak, second_peak)
            block_peak = max(first_peak, second_peak);
            float next_peak = max(peak, block_peak);
            float factor = exp2(peak - next_peak);
            peak = next_peak;
            vec4 totals = vec4(0.0);
            [[unroll]] for (uint four = 0u; four < OWN_FOURS; ++four) {
                own_scores[four] = exp2(own_scores[four] - peak);
                totals += own_scores[four];
            }
            total = total * factor + (totals.x + totals.y + (totals.z + totals.w));
            [[unroll]] for (uint four = 0u; four < OWN_FOURS; four += 2u) {
                vec4 low = own_scores[four];
                vec4 high = own_scores[four + 1u];
                scores_of_rows[own_line + (own_part * OWN_FOURS + four) / 2u] =
                    uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw));
            }
            if (own_part == 0u) {
                row_factors[first_factor + LANE % ROWS / 4u][LANE % 4u] = floatBitsToUint(factor);
            }
            SUBGROUP_BARRIER
            SUMS factors;
            LOAD_SUMS_OF_ROWS(factors, row_factors, first_factor)
            [[unroll]] for (uint k = 0u; k < HEAD_TILES; ++k) {
                results[k] = product_of_sums(results[k], factors);
            }
            [[unroll]] for (uint j = 0u; j < SCORE_TILES; ++j) {
                LEFT_FLOATS shares;
                LOAD_LEFT_FLOATS(shares, scores_of_rows, first_score + j * 2u, BY_ROWS, SCORE_PITCH)
                [[unroll]] for (uint k = 0u; k < HEAD_TILES; ++k) {
                    RIGHT_FLOATS values;
                    LOAD_RIGHT_FLOATS(values, lines_of_values, (block + j * SIDE) * HEAD_PITCH + k * 2u, BY_ROWS, HEAD_PITCH)
                    results[k] = matrices_product_plus(shares, values, results[k]);
                }
            }
        }
    }
    BOTH(total, first_total, second_total)
    total = first_total + second_total;
    float inverse = 1.0 / total;
    if (own_part == 0u) {
        row_factors[first_factor + LANE % ROWS / 4u][LANE % 4u] = floatBitsToUint(inverse);
    }
    SUBGROUP_BARRIER
    SUMS inverses;
    LOAD_SUMS_OF_ROWS(inverses, row_factors, first_factor)
    uint output_at = FIRST_VECTOR(output, batch, head);
    STORE_RESULTS(0)
#if HEAD_TILES > 2
    STORE_RESULTS(2)
#endif
#if HEAD_TILES > 4
    STORE_RESULTS(4)
#endif
#if HEAD_TILES > 6
    STORE_RESULTS(6)
#endif
#if HEAD_TILES > 8
    STORE_RESULTS(8)
#endif
}

#endif
