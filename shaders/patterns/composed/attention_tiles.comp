// CACHED_ATTENTION for many queries: what ROWS rows make of all segments in turn, with the bits of attention_segments.comp, whose sums
// are made in the same order; but a key is read once for all of them, and a number in shared memory for OWN_ROWS or SUM_ROWS.
//
// Scores: an invocation has those of OWN_ROWS rows (OWN_ROWS * (invocation / 32) and on) and 8 keys (one of each chain), in registers.
// Values: it has the sums of SUM_ROWS rows and DIMS elements.
//
// Rows of shared memory are a few words longer than what stands in them, so that neighbouring invocations find theirs in other banks.
//
// The compile script passes ELEMENT_BITS, CACHE_BITS where the caches hold integers, ROWS (64, or 32 or 16 where there are fewer
// registers), and DIMS: 4 for heads of values of up to 64 elements, 8 for up to 128.
#extension GL_EXT_control_flow_attributes : require

#define INVOCATIONS 256u
layout(local_size_x = INVOCATIONS) in;

#include "composed/attention_operands.glsl"
#include "error_free.glsl"

#define CHAIN 32u
#define CHAINS 8u
#define OWN_ROWS uint(ROWS / 8) // of an invocation, where scores are made
#define SUM_ROWS uint(ROWS / 16) // where values are summed
#define BLOCKS (DIMS / 4u) // of 64 elements of a value
#define QUADS (16u * BLOCKS) // fours of elements of a value

#define CHUNK 8u // words of a key that are held at a time
#if ELEMENT_BITS == 16
#define CHUNK_ELEMENTS 16u
#define WITH_SCORE_PRODUCT(sum, a, b) exact_product_plus(a, b, sum)
#else
#define CHUNK_ELEMENTS 8u
#define WITH_SCORE_PRODUCT(sum, a, b) with_product(sum, a, b)
#endif

#define KEY_STRIDE (KEYS + 4u)
#define SHARE_STRIDE uint(ROWS + 4)
#define PEAK_STRIDE (CHAIN + 1u)
#define QUERY_STRIDE uint(ROWS + 4)

shared uvec4 pool[544]; // words of keys, then the peaks of single invocations, then shares of a chain
shared vec4 queries[CHUNK_ELEMENTS * QUERY_STRIDE / 4u];
shared vec4 chain_values[CHAIN * QUADS];
shared uint peaks[ROWS];

#define LOADED_KEYS (INVOCATIONS / CHUNK) // or rows, of which invocations load a word each
#define KEY_WORDS (KEYS / LOADED_KEYS)
#define QUERY_WORDS ((uint(ROWS) + LOADED_KEYS - 1u) / LOADED_KEYS)
#define LOADED_QUADS (CHAIN * QUADS / INVOCATIONS)
#define PEAKS_TOGETHER (CHAIN * uint(ROWS) / INVOCATIONS)

// Numbers of neighbouring rows in shared memory.
#if ROWS == 64
#define LOAD_ROWS(target, count, array, at, AS_NUMBERS) \
    [[unroll]] for (uint four = 0u; four < count / 4u; ++four) { \
        vec4 numbers = AS_NUMBERS(array[(at) / 4u + four]); \
        [[unroll]] for (uint i = 0u; i < 4u; ++i) { \
            target[4u * four + i] = numbers[i]; \
        } \
    }
#define STORE_SHARES(at, shares) \
    [[unroll]] for (uint four = 0u; four < OWN_ROWS / 4u; ++four) { \
        uint first = 4u * four; \
        pool[(at) / 4u + four] = \
            floatBitsToUint(vec4(shares[first], shares[first + 1u], shares[first + 2u], shares[first + 3u])); \
    }
#else
#define LOAD_ROWS(target, count, array, at, AS_NUMBERS) \
    [[unroll]] for (uint i = 0u; i < count; ++i) { \
        target[i] = AS_NUMBERS(array[((at) + i) / 4u][((at) + i) % 4u]); \
    }
#define STORE_SHARES(at, shares) \
    [[unroll]] for (uint i = 0u; i < OWN_ROWS; ++i) { \
        pool[((at) + i) / 4u][((at) + i) % 4u] = floatBitsToUint(shares[i]); \
    }
#endif
#define AS_THEY_ARE(numbers) (numbers)

// Whether a row's token sees a key.
bool sees(uint past, uint row, uint last_row, uint key) {
    uvec2 seen = seen_by(past, min(row, last_row) / GROUP);
    return key >= seen.x && key <= seen.y;
}

// Adds the product of a key's shares and its value; `is_seen` may name the row r.
#define WITH_KEY(key, is_seen) \
    { \
        float own_shares[SUM_ROWS]; \
        LOAD_ROWS(own_shares, SUM_ROWS, pool, (key) * SHARE_STRIDE + sum_row, uintBitsToFloat) \
        [[unroll]] for (uint r = 0u; r < SUM_ROWS; ++r) { \
            precise float total = chain_totals[r] + own_shares[r]; \
            chain_totals[r] = total; \
        } \
        [[unroll]] for (uint b = 0u; b < BLOCKS; ++b) { \
            vec4 value = chain_values[(key) * QUADS + b * 16u + sum_quad]; \
            [[unroll]] for (uint r = 0u; r < SUM_ROWS; ++r) { \
                if (is_seen) { \
                    vec4 before = chain_sums[r * BLOCKS + b]; \
                    chain_sums[r * BLOCKS + b] = vec4( \
                        WITH_PRODUCT(before.x, own_shares[r], value.x), WITH_PRODUCT(before.y, own_shares[r], value.y), \
                        WITH_PRODUCT(before.z, own_shares[r], value.z), WITH_PRODUCT(before.w, own_shares[r], value.w)); \
                } \
            } \
        } \
    }

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
    uint sum_quad = invocation % 16u; // of each block of 64 elements
    uint rows = parameters.tokens * GROUP;
    uint tiles = (rows + ROWS - 1u) / ROWS;
    uint key_head = group / tiles; // of all sequences
    uint tile = group - key_head * tiles;
    uint first_row = (IS_CAUSAL ? tiles - 1u - tile : tile) * ROWS; // those that see most begin first
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
    uint first_key = key_head * parameters.capacity;
    vec4 all_sums[SUM_ROWS * BLOCKS];
    float all_totals[SUM_ROWS], all_peaks[SUM_ROWS];
    [[unroll]] for (uint r = 0u; r < SUM_ROWS; ++r) {
        all_totals[r] = 0.0;
        all_peaks[r] = NO_PEAK;
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
            uint own_words[KEY_WORDS];
            vec2 own_queries[QUERY_WORDS];
            uint word = first_word + invocation % CHUNK;
            [[unroll]] for (uint i = 0u; i < KEY_WORDS; ++i) {
                uint key = begin + i * LOADED_KEYS + invocation / CHUNK;
                bool is_seen = key >= first_seen && key <= last_seen;
                own_words[i] = is_seen ? key_word(first_key + key, word, scale_head) : 0u;
            }
            [[unroll]] for (uint i = 0u; i < QUERY_WORDS; ++i) {
                uint row = min(first_row + i * LOADED_KEYS + invocation / CHUNK, last_row);
                Row of_row = row_of(row, first_head);
                uint from = (sequence * parameters.tokens + of_row.token) * parameters.query_row * PAIR_WORDS
                    + of_row.head * words + word;
                own_queries[i] = elements_of(word < words ? words_query[BASE_WORD(query) + from] : 0u);
            }
            barrier(); // what was read of the chunk before, or of the segment's shares, is done with
            [[unroll]] for (uint i = 0u; i < KEY_WORDS; ++i) {
                uint key = i * LOADED_KEYS + invocation / CHUNK;
                pool[invocation % CHUNK * (KEY_STRIDE / 4u) + key / 4u][key % 4u] = own_words[i];
            }
            [[unroll]] for (uint i = 0u; i < QUERY_WORDS; ++i) {
                uint row = i * LOADED_KEYS + invocation / CHUNK;
                if (ROWS % LOADED_KEYS == 0u || row < ROWS) {
                    uint at = invocation % CHUNK * WORD_ELEMENTS * QUERY_STRIDE + row;
                    queries[at / 4u][at % 4u] = own_queries[i].x;
                    if (WORD_ELEMENTS == 2u) { queries[(at + QUERY_STRIDE) / 4u][(at + QUERY_STRIDE) % 4u] = own_queries[i].y; }
                }
            }
            if (first_word == 0u && invocation < ROWS) { peaks[invocation] = UNSEEN; }
            barrier();
            for (uint w = 0u; w < CHUNK; ++w) {
                vec2 own_keys[CHAINS];
                [[unroll]] for (uint c = 0u; c < CHAINS; ++c) {
                    own_keys[c] = elements_of(pool[w * (KEY_STRIDE / 4u) + c * (CHAIN / 4u) + lane / 4u][lane % 4u]);
                }
                [[unroll]] for (uint element = 0u; element < WORD_ELEMENTS; ++element) {
                    float own_queries[OWN_ROWS];
                    LOAD_ROWS(own_queries, OWN_ROWS, queries, (w * WORD_ELEMENTS + element) * QUERY_STRIDE + own_row, AS_THEY_ARE)
                    [[unroll]] for (uint r = 0u; r < OWN_ROWS; ++r) {
                        [[unroll]] for (uint c = 0u; c < CHAINS; ++c) {
                            scores[r * CHAINS + c] =
                                WITH_SCORE_PRODUCT(scores[r * CHAINS + c], own_queries[r], own_keys[c][element]);
                        }
                    }
                }
            }
        }
        if (HAS_CAP) { // not written out: SwiftShader forgets in copies of a loop's body what is precise
            for (uint i = 0u; i < OWN_ROWS * CHAINS; ++i) { scores[i] = bent(scaled(scores[i])); }
        }
        barrier(); // the keys were read
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
            uint at = (own_row + r) * PEAK_STRIDE + lane;
            pool[at / 4u][at % 4u] = least;
        }
        barrier();
        {
            uint row = invocation / (INVOCATIONS / ROWS);
            uint part = invocation % (INVOCATIONS / ROWS) * PEAKS_TOGETHER;
            uint least = UNSEEN;
            [[unroll]] for (uint i = 0u; i < PEAKS_TOGETHER; ++i) {
                uint at = row * PEAK_STRIDE + part + i;
                least = min(least, pool[at / 4u][at % 4u]);
            }
            atomicMin(peaks[row], least);
        }
        barrier();
        float own_peaks[SUM_ROWS], totals[SUM_ROWS];
        vec4 sums[SUM_ROWS * BLOCKS];
        [[unroll]] for (uint r = 0u; r < SUM_ROWS; ++r) {
            own_peaks[r] = peak_of(peaks[sum_row + r]);
            totals[r] = 0.0;
        }
        [[unroll]] for (uint i = 0u; i < SUM_ROWS * BLOCKS; ++i) {
            sums[i] = vec4(0.0);
        }
        for (uint c = 0u; c < CHAINS; ++c) {
            uint chain = begin + c * CHAIN;
            uint from = max(chain, first_seen);
            uint to = min(chain + CHAIN, last_seen + 1u);
            if (from >= to) { continue; } // nothing of it is seen
            bool all_see = from >= last_rows.x && to <= first_rows.y + 1u;
            vec4 loaded[LOADED_QUADS];
            [[unroll]] for (uint i = 0u; i < LOADED_QUADS; ++i) {
                uint at = i * INVOCATIONS + invocation;
                uint key = chain + at / QUADS;
                uint pair = at % QUADS * 2u;
                uvec4 bits = uvec4(0u);
                if (key >= from && key < to) {
                    uint offset = (first_key + key) * (VALUE_SIZE / 2u) + pair;
                    uint place = scale_head * (VALUE_SIZE / 2u) + pair;
                    if (pair < VALUE_SIZE / 2u) { bits.xy = CACHED_PAIR(values, value, offset, place); }
                    if (pair + 1u < VALUE_SIZE / 2u) { bits.zw = CACHED_PAIR(values, value, offset + 1u, place + 1u); }
                }
                loaded[i] = uintBitsToFloat(bits);
            }
            float shares[OWN_ROWS];
            [[unroll]] for (uint k = 0u; k < CHAINS; ++k) { // no index that is known at run time alone
                if (c == k) {
                    [[unroll]] for (uint r = 0u; r < OWN_ROWS; ++r) {
                        shares[r] = scores[r * CHAINS + k];
                    }
                }
            }
            [[unroll]] for (uint r = 0u; r < OWN_ROWS; ++r) {
                float peak = peak_of(peaks[own_row + r]);
                uvec2 seen = seen_by(past, min(first_row + own_row + r, last_row) / GROUP);
                uint key = chain + lane;
                bool counts = (all_see || (key >= seen.x && key <= seen.y)) && key >= from && key < to
                    && floatBitsToUint(peak) != 0xff800000u;
                precise float below = shares[r] - peak;
                shares[r] = counts ? share_of(below) : 0.0;
            }
            barrier(); // the peaks, or the chain before, were read
            [[unroll]] for (uint i = 0u; i < LOADED_QUADS; ++i) {
                chain_values[i * INVOCATIONS + invocation] = loaded[i];
            }
            STORE_SHARES(lane * SHARE_STRIDE + own_row, shares)
            barrier();
            vec4 chain_sums[SUM_ROWS * BLOCKS];
            float chain_totals[SUM_ROWS];
            [[unroll]] for (uint i = 0u; i < SUM_ROWS * BLOCKS; ++i) {
                chain_sums[i] = vec4(0.0);
            }
            [[unroll]] for (uint r = 0u; r < SUM_ROWS; ++r) {
                chain_totals[r] = 0.0;
            }
            if (all_see && to == from + CHAIN) {
                for (uint first = 0u; first < CHAIN; first += 4u) {
                    [[unroll]] for (uint next = 0u; next < 4u; ++next) {
                        WITH_KEY(first + next, true)
                    }
                }
            } else {
                for (uint key = from - chain; key < to - chain; ++key) {
                    WITH_KEY(key, sees(past, first_row + sum_row + r, last_row, chain + key))
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
                uint pair = b * 32u + sum_quad * 2u;
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
