// CACHED_ATTENTION: what queries make of a segment of 256 keys, or of all segments in turn.
//
// A work group has up to ROWS rows: queries of the heads that share a head of keys, token by token. Scores are sums in the order
// of a head's elements. Of a segment the sums of values are taken in 8 chains of 32 keys, which are added in their order; segments
// are joined in their order (shares.glsl). So a result follows from its own query and the keys that it sees, each with its place:
// not from the other rows, the capacity, or which segments are computed where.
//
// The compile script passes ELEMENT_BITS, ROWS, CACHE_BITS where the caches hold integers, and BLOCKS (of 32 pairs, in the largest head)
// where heads have more than 256 elements.
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 256) in;

#define IS_OF_SEGMENTS
#include "composed/attention_operands.glsl"

layout(constant_id = 11) const bool IS_ALONE = true; // whether a work group goes through all segments
layout(constant_id = 15) const uint TOGETHER = 1u; // else: through so many, of each of which it leaves a part

#define CHAIN 32u
#define CHAINS 8u
#ifndef BLOCKS
#define BLOCKS 4u
#endif

shared float queries[1024]; // ROWS heads, of which there are at most 4, or 2 of more than 256 elements
shared float shares[ROWS * KEYS]; // scores first
shared vec2 exchanged[(CHAINS - 1u) * ROWS * CHAIN];
shared float chain_totals[CHAINS * ROWS];
shared uint peaks[ROWS]; // places of scores from the largest down: the least of each row

#define VALUE_BITS(key) CACHED_PAIR(values, value, KEY_ROW(first_value, key) * (VALUE_SIZE / 2u) + pair, scale_head * (VALUE_SIZE / 2u) + pair)
#define ADD_KEY(bits, number, CONDITION) \
    { \
        vec2 value = uintBitsToFloat(bits); \
        for (uint r = 0u; r < ROWS; ++r) { \
            if (CONDITION) { \
                float share = shares[r * KEYS + (number) - begin]; \
                precise float total = totals[r] + share; \
                totals[r] = total; \
                sums[r] = vec2(WITH_PRODUCT(sums[r].x, share, value.x), WITH_PRODUCT(sums[r].y, share, value.y)); \
            } \
        } \
    }

// What is loaded at once on GPUs, which otherwise wait for each load: so many times 16 bytes of a key, and the values of so many keys.
#define FOURS_AT_ONCE 8u
#ifdef CACHE_BITS
#define FOUR_PAIRS (4u * PAIRS_OF_WORD)
#define PAIR_OF_FOUR(four, i, pair) \
    dequantized(four[(i) / PAIRS_OF_WORD] >> PAIR_POSITION(i) & PAIR_MASK, PAIR_SCALES(key, scale_head * (SIZE / 2u) + (pair)))
#elif ELEMENT_BITS == 16
#define FOUR_PAIRS 4u
#define PAIR_OF_FOUR(four, i, pair) float32_from_float16_pair(four[i])
#else
#define FOUR_PAIRS 2u
#define PAIR_OF_FOUR(four, i, pair) uvec2(without_denormal(four[2u * (i)]), without_denormal(four[2u * (i) + 1u]))
#endif
#ifndef VALUES_AT_ONCE
#define VALUES_AT_ONCE 16u
#endif

#define ADD_PRODUCTS(pair, bits) \
    { \
        vec2 key = uintBitsToFloat(bits); \
        for (uint r = 0u; r < ROWS; ++r) { \
            float sum = WITH_PRODUCT(products[r], queries[r * SIZE + 2u * (pair)], key.x); \
            products[r] = WITH_PRODUCT(sum, queries[r * SIZE + 2u * (pair) + 1u], key.y); \
        } \
    }

void main() {
    WORK_GROUP(group)
    uint invocation = index_in_group();
    uint tile = group % parameters.tiles;
    uint rows = parameters.tokens * GROUP;
    uint tiles_of_head = (rows + ROWS - 1u) / ROWS;
    uint key_head = tile / tiles_of_head; // of all sequences
    uint first_row = (tile - key_head * tiles_of_head) * ROWS;
    uint row_count = min(ROWS, rows - first_row);
    uint sequence = key_head / KEY_HEADS;
    uint scale_head = key_head - sequence * KEY_HEADS;
    uint first_head = scale_head * GROUP;
    uint past = past_of(sequence);
    uvec2 seen[ROWS];
    for (uint r = 0u; r < ROWS; ++r) { seen[r] = seen_by(past, (first_row + min(r, row_count - 1u)) / GROUP); }
    uint first_seen = seen[0].x;
    uint last_seen = seen[ROWS - 1u].y;
    uint first_segment = first_seen / KEYS;
    uint last_segment = last_seen / KEYS;
    if (!IS_ALONE) {
        uint own = group / parameters.tiles * TOGETHER;
        if (own + TOGETHER <= first_segment || own > last_segment) { return; }
        first_segment = max(own, first_segment);
        last_segment = min(own + TOGETHER - 1u, last_segment);
    }
    for (uint i = invocation; i < ROWS * (SIZE / 2u); i += KEYS) {
        uint r = i / (SIZE / 2u);
        uint row = first_row + min(r, row_count - 1u);
        uint token = row / GROUP;
        uint head = first_head + row % GROUP;
        uint offset = (sequence * parameters.tokens + token) * parameters.query_row + head * (SIZE / 2u) + i % (SIZE / 2u);
        uvec2 bits = PAIR_BITS(query, offset);
        queries[2u * i] = uintBitsToFloat(bits.x);
        queries[2u * i + 1u] = uintBitsToFloat(bits.y);
    }
    uint first_key = key_head * parameters.capacity;
    uint first_value = first_key;
    uint chain = invocation / CHAIN;
    uint lane = invocation % CHAIN;
    vec2 all_sums[BLOCKS * ROWS];
    float all_totals[ROWS], all_peaks[ROWS];
    for (uint r = 0u; r < ROWS; ++r) {
        all_totals[r] = 0.0;
        all_peaks[r] = NO_PEAK;
    }
    for (uint i = 0u; i < BLOCKS * ROWS; ++i) { all_sums[i] = vec2(0.0); }
    for (uint segment = first_segment; segment <= last_segment; ++segment) {
        uint begin = segment * KEYS;
        if (invocation < ROWS) { peaks[invocation] = UNSEEN; }
        barrier(); // the queries are there, and the peaks of the segment before were read
        uint own_key = begin + invocation;
        bool is_seen = own_key >= first_seen && own_key <= last_seen;
        float products[ROWS];
        for (uint r = 0u; r < ROWS; ++r) { products[r] = 0.0; }
        if (is_seen && !ON_PROCESSOR && SIZE / 2u % (FOUR_PAIRS * FOURS_AT_ONCE) == 0u) {
            uint first_four = (BASE_WORD(keys) >> 2u) + KEY_ROW(first_key, own_key) * (SIZE / 2u / FOUR_PAIRS);
            for (uint four = 0u; four < SIZE / 2u / FOUR_PAIRS; four += FOURS_AT_ONCE) {
                uvec4 words[FOURS_AT_ONCE];
                [[unroll]] for (uint j = 0u; j < FOURS_AT_ONCE; ++j) {
                    words[j] = fours_keys[first_four + four + j];
                }
                [[unroll]] for (uint j = 0u; j < FOURS_AT_ONCE; ++j) {
                    [[unroll]] for (uint i = 0u; i < FOUR_PAIRS; ++i) {
                        ADD_PRODUCTS((four + j) * FOUR_PAIRS + i, PAIR_OF_FOUR(words[j], i, (four + j) * FOUR_PAIRS + i))
                    }
                }
            }
        } else if (is_seen && !ON_PROCESSOR && SIZE / 2u % FOUR_PAIRS == 0u) {
            uint first_four = (BASE_WORD(keys) >> 2u) + KEY_ROW(first_key, own_key) * (SIZE / 2u / FOUR_PAIRS);
            for (uint four = 0u; four < SIZE / 2u / FOUR_PAIRS; ++four) {
                uvec4 words = fours_keys[first_four + four];
                [[unroll]] for (uint i = 0u; i < FOUR_PAIRS; ++i) {
                    ADD_PRODUCTS(four * FOUR_PAIRS + i, PAIR_OF_FOUR(words, i, four * FOUR_PAIRS + i))
                }
            }
        } else if (is_seen) {
            for (uint pair = 0u; pair < SIZE / 2u; ++pair) {
                uint of_key = KEY_ROW(first_key, own_key) * (SIZE / 2u) + pair;
                ADD_PRODUCTS(pair, CACHED_PAIR(keys, key, of_key, scale_head * (SIZE / 2u) + pair))
            }
        }
        for (uint r = 0u; r < ROWS; ++r) {
            if (own_key >= seen[r].x && own_key <= seen[r].y) {
                uint row = first_row + min(r, row_count - 1u);
                float score = score_of(products[r], sequence, first_head + row % GROUP, row / GROUP, own_key);
                shares[r * KEYS + invocation] = score;
                atomicMin(peaks[r], order_of(score));
            }
        }
        barrier();
        float own_peaks[ROWS];
        for (uint r = 0u; r < ROWS; ++r) {
            own_peaks[r] = peak_of(peaks[r]);
            bool has_peak = floatBitsToUint(own_peaks[r]) != 0xff800000u;
            precise float below = shares[r * KEYS + invocation] - own_peaks[r];
            bool counts = has_peak && own_key >= seen[r].x && own_key <= seen[r].y;
            shares[r * KEYS + invocation] = counts ? share_of(below) : 0.0;
        }
        barrier();
        uint from = max(begin + chain * CHAIN, first_seen);
        uint to = min(begin + chain * CHAIN + CHAIN, last_seen + 1u);
        bool all_see = from >= seen[ROWS - 1u].x && to <= seen[0].y + 1u;
        vec2 weights[ROWS];
        for (uint block = 0u; block < BLOCKS; ++block) {
            if (block * CHAIN >= VALUE_SIZE / 2u) { break; }
            uint pair = block * CHAIN + lane;
            bool has_pair = pair < VALUE_SIZE / 2u;
            vec2 sums[ROWS];
            float totals[ROWS];
            for (uint r = 0u; r < ROWS; ++r) {
                sums[r] = vec2(0.0);
                totals[r] = 0.0;
            }
            if (has_pair && all_see) {
                uint key = from;
                for (; !ON_PROCESSOR && key + VALUES_AT_ONCE <= to; key += VALUES_AT_ONCE) {
                    uvec2 loaded[VALUES_AT_ONCE];
                    [[unroll]] for (uint i = 0u; i < VALUES_AT_ONCE; ++i) {
                        loaded[i] = VALUE_BITS(key + i);
                    }
                    [[unroll]] for (uint i = 0u; i < VALUES_AT_ONCE; ++i) {
                        ADD_KEY(loaded[i], key + i, true)
                    }
                }
                for (; key < to; ++key) {
                    ADD_KEY(VALUE_BITS(key), key, true)
                }
            } else if (has_pair) {
                for (uint key = from; key < to; ++key) {
                    ADD_KEY(VALUE_BITS(key), key, key >= seen[r].x && key <= seen[r].y)
                }
            }
            for (uint r = 0u; r < ROWS; ++r) {
                if (chain > 0u) { exchanged[((chain - 1u) * ROWS + r) * CHAIN + lane] = sums[r]; }
                if (block == 0u && lane == 0u) { chain_totals[chain * ROWS + r] = totals[r]; }
            }
            barrier();
            if (chain == 0u) {
                for (uint r = 0u; r < ROWS; ++r) {
                    precise vec2 sum = sums[r];
                    for (uint other = 0u; other < CHAINS - 1u; ++other) {
                        sum = sum + exchanged[(other * ROWS + r) * CHAIN + lane];
                    }
                    if (block == 0u) {
                        precise float total = chain_totals[r];
                        for (uint other = 1u; other < CHAINS; ++other) {
                            total = total + chain_totals[other * ROWS + r];
                        }
                        weights[r] = weights_of(all_peaks[r], own_peaks[r]);
                        all_totals[r] = weighted(all_totals[r], total, weights[r]);
                        all_peaks[r] = larger_peak(all_peaks[r], own_peaks[r]);
                    }
                    vec2 before = all_sums[block * ROWS + r];
                    all_sums[block * ROWS + r] =
                        vec2(weighted(before.x, sum.x, weights[r]), weighted(before.y, sum.y, weights[r]));
                }
            }
            barrier();
        }
        for (uint r = 0u; !IS_ALONE && chain == 0u && r < row_count; ++r) {
            uint part = BASE_WORD(result)
                + ((key_head * rows + first_row + r) * parameters.segments + segment) * (VALUE_SIZE + 2u);
            if (lane == 0u) {
                words_result[part] = floatBitsToUint(all_peaks[r]);
                words_result[part + 1u] = floatBitsToUint(all_totals[r]);
            }
            all_peaks[r] = NO_PEAK;
            all_totals[r] = 0.0;
            for (uint block = 0u; block < BLOCKS; ++block) {
                uint pair = block * CHAIN + lane;
                vec2 sum = all_sums[block * ROWS + r];
                if (pair < VALUE_SIZE / 2u) {
                    words_result[part + 2u + 2u * pair] = floatBitsToUint(sum.x);
                    words_result[part + 3u + 2u * pair] = floatBitsToUint(sum.y);
                }
                all_sums[block * ROWS + r] = vec2(0.0);
            }
        }
    }
    if (!IS_ALONE || chain != 0u) { return; }
    for (uint r = 0u; r < row_count; ++r) {
        uint row = first_row + r;
        uint token = row / GROUP;
        uint head = first_head + row % GROUP;
        uint target = ((sequence * parameters.tokens + token) * KEY_HEADS * GROUP + head) * (VALUE_SIZE / 2u);
        for (uint block = 0u; block < BLOCKS; ++block) {
            uint pair = block * CHAIN + lane;
            if (pair < VALUE_SIZE / 2u) {
                vec2 sum = all_sums[block * ROWS + r];
                uvec2 bits = uvec2(
                    result_of(sum.x, all_totals[r], all_peaks[r], head), result_of(sum.y, all_totals[r], all_peaks[r], head));
                STORE_PAIR(result, target + pair, bits);
            }
        }
    }
}
