// MULTIHEAD_ATTENTION of FLOAT16 by matrices that subgroups hold together, for those who permit a device its own arithmetic.
// Attention for those who permit a device its own arithmetic: FLOAT16 matrices that a subgroup holds together (cooperative_floats.glsl),
// and sums in FLOAT32. Scores are never in memory: those of a block of keys become shares, are multiplied with the values, and what was
// there before is scaled when a row's peak has grown (M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018;
// T. Dao, D. Y. Fu, S. Ermon, A. Rudra, C. Ré, "FlashAttention: fast and memory-efficient exact attention with IO-awareness", 2022).
//
// A work group has TILE_ROWS queries of a head, of which each of its subgroups has ROWS: the matrices of its queries and of its results stay
// in registers. Keys and values go through shared memory, KEYS at once, and each subgroup makes the scores of KEY_BLOCK of them at a time.
// They are turned into shares where they are, on devices whose matrices lie in quads (cooperative_quads.glsl), and else in shared memory.
//
// Its buffers are not `coherent`: it runs only where barriers are recorded between dispatches (dmlvk/kernels/target.py).
//
// With IS_CACHED, keys and values are those of caches (cached_attention.glsl): each query sees the keys up to its own, or all of them, and with a
// window so many. Blocks that no query of a work group sees are left out.
//
// The compile script passes HEAD_TILES (of 16 elements of a head), SUBGROUPS, KEYS, a multiple of KEY_BLOCK, and maybe IS_CACHED.

#define OPERAND_BITS 16
#include "cooperative_floats.glsl"
#define INVOCATIONS (SUBGROUP_INVOCATIONS * SUBGROUPS)
// Whether matrices may lie in quads.
#define MAY_LIE_IN_QUADS (SUBGROUP_INVOCATIONS == 32 && MATRIX_ROWS == 16 && MATRIX_COLUMNS == 16)
#if MAY_LIE_IN_QUADS
#include "cooperative_quads.glsl"
#else
#define MATRICES_LIE_IN_QUADS false
#endif
#extension GL_EXT_control_flow_attributes : require
#define coherent

layout(local_size_x = INVOCATIONS) in;

layout(push_constant) uniform Parameters {
    uint base_query; // where operands begin in their buffers, in words
    uint base_key, base_value;
#ifdef IS_CACHED
    uint base_ends, base_total;
#else
    uint base_bias, base_mask;
#endif
    uint base_output;
    uint work_items; // work groups
    uint heads, queries;
    uint keys; // there is room for, in caches
    uint scale; // of scores as powers of two, a float32
    uint query_batch; // steps, in vectors of eight elements
    uint query_head, query_row, key_batch, key_head, key_row, value_batch, value_head, value_row, output_batch;
    uint output_head, output_row;
#ifdef IS_CACHED
    uint window; // keys that a query sees, its own last; 0: all
#else
    uint bias_batch; // steps, in elements
    uint bias_head, bias_row, bias_key, mask_batch, mask_head, mask_row, mask_key;
#endif
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, query)
BUFFER(1, key)
BUFFER(2, value)
#ifdef IS_CACHED
BUFFER(3, ends)
BUFFER(4, total)
#else
BUFFER(3, bias)
BUFFER(4, mask)
#endif
BUFFER(5, output)

layout(constant_id = 2) const uint SIZE = 64u; // of a head of queries and keys, and of values: multiples of eight
layout(constant_id = 3) const uint VALUE_SIZE = 64u;
layout(constant_id = 4) const uint GROUP = 1u; // heads of queries for each head of keys
#ifdef IS_CACHED
layout(constant_id = 5) const bool IS_CAUSAL = true;
#define TOKENS parameters.queries
#define CAPACITY parameters.keys
#include "composed/cache_lengths.glsl"
#else
layout(constant_id = 5) const bool HAS_BIAS = false; // what is added to scores
layout(constant_id = 6) const bool HAS_MASK = false;
#endif

#include "float16.glsl"

#define ROWS MATRIX_ROWS
#define TILE_ROWS (ROWS * SUBGROUPS)
#define KEY_BLOCK 32
#define SCORE_TILES (KEY_BLOCK / MATRIX_COLUMNS) // of sums; as left matrices, shares have 16 columns
#define SHARE_TILES (KEY_BLOCK / 16)
#define RESULT_TILES (HEAD_TILES * 16 / MATRIX_COLUMNS)

// In vectors of eight FLOAT16 or four FLOAT32; one behind each line moves what is loaded together to other banks.
#define HEAD_VECTORS (2 * HEAD_TILES)
#define HEAD_PITCH (HEAD_VECTORS + 1)
#define SCORE_PITCH (KEY_BLOCK / 4 + 1)
#if HEAD_TILES < 4
#define QUERY_PITCH HEAD_PITCH
#else
#define QUERY_PITCH 9 // of four matrices at a time
#endif
#define FIRST_VALUE (KEYS * HEAD_PITCH)
#if TILE_ROWS * QUERY_PITCH > 2 * KEYS * HEAD_PITCH
shared uvec4 lines[TILE_ROWS * QUERY_PITCH]; // keys, then values; before, queries
#else
shared uvec4 lines[2 * KEYS * HEAD_PITCH];
#endif
shared uvec4 scores_of_rows[MATRICES_LIE_IN_QUADS ? 1 : TILE_ROWS * SCORE_PITCH]; // or their shares

#define LOADS (KEYS * HEAD_VECTORS / INVOCATIONS)
// The lines of keys or values from one on that an invocation stores, with zeros behind the last one and behind the last element. They are
// not loaded while the former ones are multiplied: other work groups of a core cover for that, of which there are more with fewer registers.
#define LOAD_LINES(name, into, at, size, first) \
    [[unroll]] for (uint i = 0u; i < LOADS; ++i) { \
        uint line = (first) + (own + i * INVOCATIONS) / HEAD_VECTORS; \
        uint vector = (own + i * INVOCATIONS) % HEAD_VECTORS; \
        bool is_there = line < end_key && vector * 8u < size; \
        into[i] = is_there ? fours_##name[(at) + line * parameters.name##_row + vector] : uvec4(0u); \
    }
#define PUT_LINES(at, from) \
    [[unroll]] for (uint i = 0u; i < LOADS; ++i) { \
        lines[(at) + (own + i * INVOCATIONS) / HEAD_VECTORS * HEAD_PITCH + (own + i * INVOCATIONS) % HEAD_VECTORS] = from[i]; \
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
// With what is added to a score, if anything is; of a key that the row does not see, a score is nothing.
#ifdef IS_CACHED
#define SCORES_ARE_PLAIN true
#define FINISH_SCORE(score, row, key) \
    { \
        bool is_seen = key < end_key && (!IS_CAUSAL || key <= past + row) \
            && (parameters.window == 0u || key + parameters.window > past + row); \
        score = is_seen ? score : uintBitsToFloat(0xff800000u); \
    }
// Whether all rows of a subgroup see a block of keys.
#define SEES_ALL(first, row) \
    (first + KEY_BLOCK <= end_key && (!IS_CAUSAL || first + KEY_BLOCK <= past + row + 1u) \
        && (parameters.window == 0u || first + parameters.window > past + row + ROWS - 1u))
#else
#define SCORES_ARE_PLAIN !(HAS_BIAS || HAS_MASK)
#define FINISH_SCORE(score, row, key) \
    { \
        uint key_in_bounds = min(key, parameters.keys - 1u); \
        if (HAS_BIAS) { \
            PUT_ADDED(bias, row, key_in_bounds, score) \
        } \
        if (HAS_MASK) { \
            PUT_ADDED(mask, row, key_in_bounds, score) \
        } \
        score = key < parameters.keys ? score : uintBitsToFloat(0xff800000u); \
    }
#define SEES_ALL(first, row) (first + KEY_BLOCK <= end_key)
#endif

// A peak that no score is below, but -infinity: what is less than it by infinity has no share, and no difference is NaN.
const float LEAST_PEAK = -3.0e38;

// Matrices of queries from one on, by way of the place of keys. Written out, as loops with barriers are not unrolled by every driver, and
// matrices that a loop counts are in memory then.
#define LOAD_QUERIES(first, count) \
    { \
        uint first_line = SUBGROUP * ROWS * QUERY_PITCH; \
        SUBGROUP_BARRIER \
        for (uint number = LANE; number < ROWS * count * 2u; number += SUBGROUP_INVOCATIONS) { \
            uint row = first_row + number / (count * 2u); \
            uint vector = first * 2u + number % (count * 2u); \
            bool is_there = row < parameters.queries && vector * 8u < SIZE; \
            lines[first_line + number / (count * 2u) * QUERY_PITCH + number % (count * 2u)] = \
                is_there ? fours_query[query_at + row * parameters.query_row + vector] : uvec4(0u); \
        } \
        SUBGROUP_BARRIER \
        [[unroll]] for (uint k = 0u; k < count; ++k) { \
            LOAD_LEFT_FLOATS(query[first + k], lines, first_line + k * 2u, BY_ROWS, QUERY_PITCH) \
        } \
    }
#include "composed/attention_in_memory.glsl"
#if MAY_LIE_IN_QUADS
#include "composed/attention_in_registers.glsl"
#endif

void main() {
    WORK_GROUP(group)
    uint tiles = (parameters.queries + uint(TILE_ROWS) - 1u) / uint(TILE_ROWS);
    uint head = group / tiles % parameters.heads;
    uint batch = group / tiles / parameters.heads;
    uint own = index_in_group();
    uint first_row = group % tiles * TILE_ROWS + SUBGROUP * ROWS; // of the subgroup
    uint first_score = SUBGROUP * ROWS * SCORE_PITCH;
    uint query_at = FIRST_VECTOR(query, batch, head);
    uint key_at = FIRST_VECTOR(key, batch, head / GROUP);
    uint value_at = FIRST_VECTOR(value, batch, head / GROUP);
#ifdef IS_CACHED
    uint past = past_of(batch);
    uint tile_row = group % tiles * TILE_ROWS;
    uint last_row = min(tile_row + TILE_ROWS, parameters.queries) - 1u;
    uint end_key = min(past + (IS_CAUSAL ? last_row + 1u : parameters.queries), parameters.keys);
    uint from_window = past + tile_row + 1u - min(parameters.window, past + tile_row + 1u);
    uint first_key = parameters.window == 0u ? 0u : from_window / KEYS * KEYS;
#else
    uint first_bias = BASE_16(BASE_WORD(bias)) + batch * parameters.bias_batch + head * parameters.bias_head;
    uint first_mask = BASE_16(BASE_WORD(mask)) + batch * parameters.mask_batch + head * parameters.mask_head;
    uint end_key = parameters.keys;
    uint first_key = 0u;
#endif
    float scale = uintBitsToFloat(parameters.scale);

    LEFT_FLOATS query[HEAD_TILES];
    LOAD_QUERIES(0, (HEAD_TILES < 4 ? HEAD_TILES : 4))
#if HEAD_TILES > 4
    LOAD_QUERIES(4, (HEAD_TILES < 8 ? HEAD_TILES - 4 : 4))
#endif
#if HEAD_TILES > 8
    LOAD_QUERIES(8, (HEAD_TILES - 8))
#endif
    SUMS results[RESULT_TILES];
    [[unroll]] for (uint i = 0u; i < RESULT_TILES; ++i) {
        results[i] = filled_with(0.0);
    }
    // Of the rows that an invocation has: by the way through memory the first alone.
    vec2 peaks = vec2(LEAST_PEAK);
    vec2 totals = vec2(0.0);
    for (uint first = first_key; first < end_key; first += KEYS) {
        uvec4 of_keys[LOADS], of_values[LOADS];
        LOAD_LINES(key, of_keys, key_at, SIZE, first)
        LOAD_LINES(value, of_values, value_at, VALUE_SIZE, first)
        barrier(); // all are through with what was there
        PUT_LINES(0u, of_keys)
        PUT_LINES(FIRST_VALUE, of_values)
        barrier();
        for (uint block = 0u; block < KEYS && first + block < end_key; block += KEY_BLOCK) {
            SUMS scores[SCORE_TILES];
            [[unroll]] for (uint i = 0u; i < SCORE_TILES; ++i) {
                scores[i] = filled_with(0.0);
            }
            [[unroll]] for (uint k = 0u; k < HEAD_TILES; ++k) {
                [[unroll]] for (uint j = 0u; j < SCORE_TILES; ++j) {
                    RIGHT_FLOATS keys;
                    LOAD_RIGHT_FLOATS(keys, lines, (block + j * RIGHT_SIDE) * HEAD_PITCH + k * 2u, BY_COLUMNS, HEAD_PITCH)
                    scores[j] = matrices_product_plus(query[k], keys, scores[j]);
                }
            }
            bool is_whole = SEES_ALL(first + block, first_row);
            LEFT_FLOATS shares[SHARE_TILES];
            SUMS factors;
#if MAY_LIE_IN_QUADS
            if (MATRICES_LIE_IN_QUADS) {
                SHARES_IN_REGISTERS
            } else {
                SHARES_IN_MEMORY
            }
#else
            SHARES_IN_MEMORY
#endif
            [[unroll]] for (uint k = 0u; k < RESULT_TILES; ++k) {
                results[k] = product_of_sums(results[k], factors);
            }
            [[unroll]] for (uint j = 0u; j < SHARE_TILES; ++j) {
                [[unroll]] for (uint k = 0u; k < RESULT_TILES; ++k) {
                    RIGHT_FLOATS values;
                    LOAD_RIGHT_FLOATS(values, lines, FIRST_VALUE + (block + j * SIDE) * HEAD_PITCH + k * (RIGHT_SIDE / 8u), BY_ROWS, HEAD_PITCH)
                    results[k] = matrices_product_plus(shares[j], values, results[k]);
                }
            }
        }
    }
#if MAY_LIE_IN_QUADS
    if (MATRICES_LIE_IN_QUADS) {
        RESULTS_FROM_REGISTERS
    } else {
        RESULTS_FROM_MEMORY
    }
#else
    RESULTS_FROM_MEMORY
#endif
}
