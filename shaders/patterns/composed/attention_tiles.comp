// CACHED_ATTENTION for many queries: the results of tiles of 64 rows, with the bits of attention_segments.comp.
// CACHED_ATTENTION: what ROWS rows make of all segments in turn, with the bits of attention_segments.comp, whose sums are made in the
// same order; but a key is read once for all of them, and a number in shared memory for OWN_ROWS or SUM_ROWS.
//
// Scores: an invocation has those of OWN_ROWS rows (OWN_ROWS * (invocation / 32) and on) and 8 keys (one of each chain), in registers.
// Values: it has the sums of SUM_ROWS rows and DIMS elements.
//
// The compile script passes ELEMENT_BITS, CACHE_BITS where the caches hold integers, ROWS (64, or 32 or 16 where there are fewer
// registers), and DIMS: 4 for heads of values of up to 64 elements, 8 for up to 128.
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 256) in;

#include "composed/attention_operands.glsl"
#include "error_free.glsl"

#define CHAIN 32u
#define CHAINS 8u
#define OWN_ROWS uint(ROWS / 8) // of an invocation, where scores are made
#define SUM_ROWS uint(ROWS / 16) // where values are summed
#define BLOCKS (DIMS / 4u) // of 64 elements of a value

#define CHUNK 8u // words of a key that are held at a time
#if ELEMENT_BITS == 16
#define CHUNK_ELEMENTS 16u
#define WITH_SCORE_PRODUCT(sum, a, b) exact_product_plus(a, b, sum)
#else
#define CHUNK_ELEMENTS 8u
#define WITH_SCORE_PRODUCT(sum, a, b) with_product(sum, a, b)
#endif

shared uint pool[CHUNK * KEYS]; // words of keys, then shares of a chain
shared float queries[CHUNK_ELEMENTS * ROWS];
shared uint peaks[ROWS];

// The row of a tile as a token and a head.
struct Row {
    uint token, head;
};

Row row_of(uint row, uint first_head) { return Row(row / GROUP, first_head + row % GROUP); }

// A word of a key, of the operands' type.
uint key_word(uint key_row, uint word, uint scale_head) {
    uint words = SIZE * ELEMENT_BITS / 32u;
    if (word >= words) { return 0u; }
#ifdef CACHE_BITS
    uint pair = word / PAIR_WORDS;
    uvec2 bits = CACHED_PAIR(keys, key, key_row * (SIZE / 2u) + pair, scale_head * (SIZE / 2u) + pair);
#if ELEMENT_BITS == 16
    return float16_from_float32(bits.x) | float16_from_float32(bits.y) << 16u;
#else
    return bits[word % 2u];
#endif
#else
    return words_keys[BASE_WORD(keys) + key_row * words + word];
#endif
}

// The elements of a word; of float32 the second one is none.
#if ELEMENT_BITS == 16
#define WORD_ELEMENTS 2u
vec2 elements_of(uint word) { return uintBitsToFloat(float32_from_float16_pair(word)); }
#else
#define WORD_ELEMENTS 1u
vec2 elements_of(uint word) { return vec2(uintBitsToFloat(without_denormal(word)), 0.0); }
#endif

void main() {
    WORK_GROUP(group)
    uint invocation = index_in_group();
    uint lane = invocation % CHAIN;
    uint own_row = invocation / CHAIN * OWN_ROWS;
    uint sum_row = invocation / 16u * SUM_ROWS;
    uint sum_pair = invocation % 16u * 2u; // two pairs of each block of 64 elements
    uint rows = parameters.tokens * GROUP;
    uint tiles = (rows + ROWS - 1u) / ROWS;
    uint key_head = group / tiles; // of all sequences
    uint first_row = (group - key_head * tiles) * ROWS;
    uint last_row = min(first_row + ROWS, rows) - 1u;
    uint sequence = key_head / KEY_HEADS;
    uint scale_head = key_head - sequence * KEY_HEADS;
    uint first_head = scale_head * GROUP;
    uint past = past_of(sequence);
    uvec2 first_rows = seen_by(past, first_row / GROUP);
    uvec2 last_rows = seen_by(past, last_row / GROUP);
    uint first_seen = first_rows.x;
    uint last_seen = last_rows.y;
    uint words = SIZE * ELEMENT_BITS / 32u;
    vec4 all_sums[SUM_ROWS * BLOCKS];
    float all_totals[SUM_ROWS], all_peaks[SUM_ROWS];
    uvec2 seen_sum[SUM_ROWS];
    [[unroll]] for (uint r = 0u; r < SUM_ROWS; ++r) {
        all_totals[r] = 0.0;
        all_peaks[r] = NO_PEAK;
        seen_sum[r] = seen_by(past, min(first_row + sum_row + r, last_row) / GROUP);
    }
    [[unroll]] for (uint i = 0u; i < SUM_ROWS * BLOCKS; ++i) {
        all_sums[i] = vec4(0.0);
    }
    for (uint segment = first_seen / KEYS; segment <= last_seen / KEYS; ++segment) {
        uint begin = segment * KEYS;
        float scores[OWN_ROWS * CHAINS];
        [[unroll]] for (uint i = 0u; i < OWN_ROWS * CHAINS; ++i) {
            scores[i] = 0.0;
        }
        for (uint first_word = 0u; first_word < words; first_word += CHUNK) {
            barrier(); // what was read of the chunk before, or of the segment's shares, is done with
            uint key = begin + invocation;
            bool is_seen = key >= first_seen && key <= last_seen;
            [[unroll]] for (uint w = 0u; w < CHUNK; ++w) {
                pool[w * KEYS + invocation] =
                    is_seen ? key_word(key_head * parameters.capacity + key, first_word + w, scale_head) : 0u;
            }
            [[unroll]] for (uint i = 0u; i < (ROWS * CHUNK + 255u) / 256u; ++i) {
                uint offset = i * 256u + invocation;
                uint row = offset / CHUNK;
#if ROWS < 32
                if (row >= ROWS) { break; }
#endif
                uint word = offset % CHUNK;
                Row of_row = row_of(min(first_row + row, last_row), first_head);
                uint from = (sequence * parameters.tokens + of_row.token) * parameters.query_row * PAIR_WORDS
                    + of_row.head * words + first_word + word;
                uint bits = first_word + word < words ? words_query[BASE_WORD(query) + from] : 0u;
                vec2 elements = elements_of(bits);
                queries[word * WORD_ELEMENTS * ROWS + row] = elements.x;
                if (WORD_ELEMENTS == 2u) { queries[(word * WORD_ELEMENTS + 1u) * ROWS + row] = elements.y; }
            }
            if (first_word == 0u && invocation < ROWS) { peaks[invocation] = UNSEEN; }
            barrier();
            for (uint w = 0u; w < CHUNK; ++w) {
                vec2 own_keys[CHAINS];
                [[unroll]] for (uint c = 0u; c < CHAINS; ++c) {
                    own_keys[c] = elements_of(pool[w * KEYS + c * CHAIN + lane]);
                }
                [[unroll]] for (uint r = 0u; r < OWN_ROWS; ++r) {
                    float first = queries[w * WORD_ELEMENTS * ROWS + own_row + r];
                    [[unroll]] for (uint c = 0u; c < CHAINS; ++c) {
                        scores[r * CHAINS + c] = WITH_SCORE_PRODUCT(scores[r * CHAINS + c], first, own_keys[c].x);
                    }
#if ELEMENT_BITS == 16
                    float second = queries[(w * WORD_ELEMENTS + 1u) * ROWS + own_row + r];
                    [[unroll]] for (uint c = 0u; c < CHAINS; ++c) {
                        scores[r * CHAINS + c] = WITH_SCORE_PRODUCT(scores[r * CHAINS + c], second, own_keys[c].y);
                    }
#endif
                }
            }
        }
        if (HAS_CAP) { // not written out: SwiftShader forgets in copies of a loop's body what is precise
            for (uint i = 0u; i < OWN_ROWS * CHAINS; ++i) { scores[i] = bent(scaled(scores[i])); }
        }
        for (uint r = 0u; r < OWN_ROWS; ++r) {
            Row of_row = row_of(min(first_row + own_row + r, last_row), first_head);
            uvec2 seen = seen_by(past, of_row.token);
            uint least = UNSEEN;
            [[unroll]] for (uint c = 0u; c < CHAINS; ++c) {
                uint key = begin + c * CHAIN + lane;
                bool is_seen = key >= seen.x && key <= seen.y;
                float score = scores[r * CHAINS + c];
                if (!HAS_CAP) { score = scaled(score); }
                score = with_bias(score, sequence, of_row.head, of_row.token, key);
                scores[r * CHAINS + c] = score;
                least = is_seen ? min(least, order_of(score)) : least;
            }
            atomicMin(peaks[own_row + r], least);
        }
        barrier();
        uint share_row = invocation % ROWS; // of those whose shares it makes of scores
        uvec2 seen_share = seen_by(past, min(first_row + share_row, last_row) / GROUP);
        float share_peak = peak_of(peaks[share_row]);
        float own_peaks[SUM_ROWS], totals[SUM_ROWS];
        vec4 sums[SUM_ROWS * BLOCKS];
        [[unroll]] for (uint r = 0u; r < SUM_ROWS; ++r) {
            own_peaks[r] = peak_of(peaks[sum_row + r]);
            totals[r] = 0.0;
        }
        [[unroll]] for (uint i = 0u; i < SUM_ROWS * BLOCKS; ++i) {
            sums[i] = vec4(0.0);
        }
        [[unroll]] for (uint c = 0u; c < CHAINS; ++c) {
            barrier(); // the keys, or the chain before, were read
            [[unroll]] for (uint r = 0u; r < OWN_ROWS; ++r) {
                pool[lane * ROWS + own_row + r] = floatBitsToUint(scores[r * CHAINS + c]);
            }
            barrier();
            uint chain = begin + c * CHAIN;
            for (uint offset = invocation; offset < CHAIN * ROWS; offset += 256u) {
                uint key = chain + offset / ROWS;
                precise float below = uintBitsToFloat(pool[offset]) - share_peak;
                bool counts = key >= seen_share.x && key <= seen_share.y && floatBitsToUint(share_peak) != 0xff800000u;
                pool[offset] = counts ? floatBitsToUint(share_of(below)) : 0u;
            }
            barrier();
            uint from = max(chain, first_seen);
            uint to = min(chain + CHAIN, last_seen + 1u);
            bool all_see = from >= last_rows.x && to <= first_rows.y + 1u;
            vec4 chain_sums[SUM_ROWS * BLOCKS];
            float chain_totals[SUM_ROWS];
            [[unroll]] for (uint i = 0u; i < SUM_ROWS * BLOCKS; ++i) {
                chain_sums[i] = vec4(0.0);
            }
            [[unroll]] for (uint r = 0u; r < SUM_ROWS; ++r) {
                chain_totals[r] = 0.0;
            }
            for (uint key = from; key < to; ++key) {
                float shares[SUM_ROWS];
                [[unroll]] for (uint r = 0u; r < SUM_ROWS; ++r) {
                    shares[r] = uintBitsToFloat(pool[(key - chain) * ROWS + sum_row + r]);
                    precise float total = chain_totals[r] + shares[r];
                    chain_totals[r] = total;
                }
                [[unroll]] for (uint b = 0u; b < BLOCKS; ++b) {
                    uint pair = b * 32u + sum_pair;
                    if (pair < VALUE_SIZE / 2u) {
                        uint offset = (key_head * parameters.capacity + key) * (VALUE_SIZE / 2u) + pair;
                        uvec2 low = CACHED_PAIR(values, value, offset, scale_head * (VALUE_SIZE / 2u) + pair);
                        uvec2 high = uvec2(0u);
                        if (pair + 1u < VALUE_SIZE / 2u) {
                            high = CACHED_PAIR(values, value, offset + 1u, scale_head * (VALUE_SIZE / 2u) + pair + 1u);
                        }
                        vec4 value = uintBitsToFloat(uvec4(low, high));
                        [[unroll]] for (uint r = 0u; r < SUM_ROWS; ++r) {
                            if (all_see || (key >= seen_sum[r].x && key <= seen_sum[r].y)) {
                                vec4 before = chain_sums[r * BLOCKS + b];
                                chain_sums[r * BLOCKS + b] = vec4(
                                    WITH_PRODUCT(before.x, shares[r], value.x), WITH_PRODUCT(before.y, shares[r], value.y),
                                    WITH_PRODUCT(before.z, shares[r], value.z), WITH_PRODUCT(before.w, shares[r], value.w));
                            }
                        }
                    }
                }
            }
            [[unroll]] for (uint r = 0u; r < SUM_ROWS; ++r) {
                precise float total = totals[r] + chain_totals[r];
                totals[r] = total;
            }
            [[unroll]] for (uint i = 0u; i < SUM_ROWS * BLOCKS; ++i) {
                precise vec4 sum = sums[i] + chain_sums[i];
                sums[i] = sum;
            }
        }
        [[unroll]] for (uint r = 0u; r < SUM_ROWS; ++r) {
            vec2 weights = weights_of(all_peaks[r], own_peaks[r]);
            all_totals[r] = weighted(all_totals[r], totals[r], weights);
            all_peaks[r] = larger_peak(all_peaks[r], own_peaks[r]);
            [[unroll]] for (uint b = 0u; b < BLOCKS; ++b) {
                vec4 before = all_sums[r * BLOCKS + b];
                vec4 here = sums[r * BLOCKS + b];
                all_sums[r * BLOCKS + b] = vec4(
                    weighted(before.x, here.x, weights), weighted(before.y, here.y, weights),
                    weighted(before.z, here.z, weights), weighted(before.w, here.w, weights));
            }
        }
    }
    [[unroll]] for (uint r = 0u; r < SUM_ROWS; ++r) {
        uint row = first_row + sum_row + r;
        if (row <= last_row) {
            Row of_row = row_of(row, first_head);
            uint target =
                ((sequence * parameters.tokens + of_row.token) * KEY_HEADS * GROUP + of_row.head) * (VALUE_SIZE / 2u);
            [[unroll]] for (uint b = 0u; b < BLOCKS; ++b) {
                vec4 sum = all_sums[r * BLOCKS + b];
                uint pair = b * 32u + sum_pair;
                if (pair < VALUE_SIZE / 2u) {
                    uvec2 bits = uvec2(
                        result_of(sum.x, all_totals[r], all_peaks[r], of_row.head),
                        result_of(sum.y, all_totals[r], all_peaks[r], of_row.head));
                    STORE_PAIR(result, target + pair, bits);
                }
                if (pair + 1u < VALUE_SIZE / 2u) {
                    uvec2 bits = uvec2(
                        result_of(sum.z, all_totals[r], all_peaks[r], of_row.head),
                        result_of(sum.w, all_totals[r], all_peaks[r], of_row.head));
                    STORE_PAIR(result, target + pair + 1u, bits);
                }
            }
        }
    }
}
