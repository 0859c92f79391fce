// CACHED_ATTENTION: what a few queries of a token make of a segment of 256 keys.
// CACHED_ATTENTION: what up to ROWS queries of a token make of a segment of 256 keys, with the bits of attention_segments.comp; but keys
// are on their way before the first of them is waited for, and so are the next values. Heads have 64 or 128 FLOAT16.
//
// The queries of a work group share a head of keys, which is read once for them. With APPENDS, for one new token of each sequence, whoever
// has the segment of its key appends that and the value, and queries and the key are rotated here: what attention_append.comp does.
//
// The compile script passes ROWS, and APPENDS.
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_control_flow_attributes : enable

layout(local_size_x = 256) in;

#define IS_OF_SEGMENTS
#include "composed/attention_operands.glsl"
#include "error_free.glsl"
#ifdef APPENDS
#include "composed/attention_angles.glsl"
#endif

#define CHAIN 32u
#define CHAINS 8u
#define EIGHTS 16u // of elements, in the largest head
// Of elements, and of keys with their values, that a turn of a loop has: what is written out altogether is executed once, and each of its
// instructions is waited for as for a load.
#define EIGHTS_OF_ITERATION 4u
#define VALUES_OF_ITERATION 8u

shared vec4 queries[ROWS * 2u * EIGHTS];
shared vec4 shares[ROWS * KEYS / 4u]; // scores first
#define OWN_SHARE(r) shares[((r) * KEYS + invocation) / 4u][invocation % 4u]
shared vec2 chain_sums[ROWS * CHAINS * CHAIN];
shared float chain_totals[ROWS * CHAINS];
shared uint least[ROWS]; // of the places of scores from the largest down
#ifdef APPENDS
shared uint new_key[4u * EIGHTS]; // pairs
#define ROUNDED_PAIR(bits) float32_from_float16_pair(float16_from_float32((bits).x) | (float16_from_float32((bits).y) << 16u))
#endif

// Values of keys of a chain, from one on: one pair of a head of 64, two pairs of one of 128. What stands in main() as it is: arrays that
// functions share are kept in memory by some drivers.
#define LOAD_VALUES(from) \
    [[unroll]] for (uint i = 0u; i < VALUES_OF_ITERATION; ++i) { \
        uint key = first_row + min(begin + chain * CHAIN + (from) + i, last_loaded); \
        if (VALUE_SIZE == 64u) { \
            values[i].x = words_values[BASE_WORD(values) + key * 32u + lane]; \
        } else { \
            values[i] = pairs_values[(BASE_WORD(values) >> 1u) + key * 32u + lane]; \
        } \
    }

// Adds a query's sums of all chains in their order, of one of the pairs that a lane has, and stores them as a part for attention_join.comp.
void store_part(uint part, uint r, uint lane, uint block) {
    precise vec2 sum = chain_sums[r * CHAINS * CHAIN + lane];
    precise float total = chain_totals[r * CHAINS];
    [[unroll]] for (uint other = 1u; other < CHAINS; ++other) {
        sum = sum + chain_sums[(r * CHAINS + other) * CHAIN + lane];
        total = total + chain_totals[r * CHAINS + other];
    }
    float peak = peak_of(least[r]);
    vec2 weights = weights_of(NO_PEAK, peak);
    if (block == 0u && lane == 0u) {
        words_result[part] = floatBitsToUint(larger_peak(NO_PEAK, peak));
        words_result[part + 1u] = floatBitsToUint(weighted(0.0, total, weights));
    }
    uint pair = VALUE_SIZE == 64u ? lane : 2u * lane + block;
    words_result[part + 2u + 2u * pair] = floatBitsToUint(weighted(0.0, sum.x, weights));
    words_result[part + 3u + 2u * pair] = floatBitsToUint(weighted(0.0, sum.y, weights));
}

#ifdef APPENDS
// The new key of a sequence's head goes into shared memory, and into the cache where it is `stored`.
void append_key(uint sequence, uint key_head, uint past, uint angles, uint pair, bool stored) {
    uint head = parameters.first_key + sequence * parameters.key_row + (key_head - sequence * KEY_HEADS) * (SIZE / 2u);
    ROTATED_PAIR(bits, key, head, pair, angles)
    uint word = float16_from_float32(bits.x) | (float16_from_float32(bits.y) << 16u);
    if (pair >= ROTATED) { word = words_key[BASE_WORD(key) + head + pair]; }
    new_key[pair] = word;
    if (stored) { words_keys[BASE_WORD(keys) + (key_head * parameters.capacity + past) * (SIZE / 2u) + pair] = word; }
}

// A lane's part of the new value, which goes into the cache where it is `stored`.
uvec2 appended_value(uint sequence, uint key_head, uint past, uint lane, bool stored) {
    uint pairs = VALUE_SIZE / 64u; // of a lane
    uint source = BASE_WORD(value) + parameters.first_value + sequence * parameters.value_row
        + (key_head - sequence * KEY_HEADS) * (VALUE_SIZE / 2u) + lane * pairs;
    uint target = BASE_WORD(values) + (key_head * parameters.capacity + past) * (VALUE_SIZE / 2u) + lane * pairs;
    uvec2 words = uvec2(words_value[source], words_value[source + pairs - 1u]);
    if (stored) {
        words_values[target] = words.x;
        words_values[target + pairs - 1u] = words.y;
    }
    return words;
}
#endif

void main() {
    WORK_GROUP(group)
    uint invocation = index_in_group();
    uint tile = group % parameters.tiles;
    uint tiles_of_token = (GROUP + ROWS - 1u) / ROWS;
    uint tiles_of_head = parameters.tokens * tiles_of_token;
    uint key_head = tile / tiles_of_head; // of all sequences
    uint token = (tile - key_head * tiles_of_head) / tiles_of_token;
    uint first_of_group = (tile % tiles_of_token) * ROWS;
    uint sequence = key_head / KEY_HEADS;
    uint first_head = (key_head - sequence * KEY_HEADS) * GROUP;
    uint segment = group / parameters.tiles;
    uint begin = segment * KEYS;
    uint past = past_of(sequence);
    uvec2 seen = seen_by(past, token);
    if (segment < seen.x / KEYS || segment > seen.y / KEYS) { return; }
    uint chain = invocation / CHAIN;
    uint lane = invocation % CHAIN;
    uint own_key = begin + invocation;
    uint first_row = key_head * parameters.capacity;
    uint pair_of_queries = min(invocation, ROWS * (SIZE / 2u) - 1u);
    uint row_of_query = min(first_of_group + pair_of_queries / (SIZE / 2u), GROUP - 1u);
    uint query = (sequence * parameters.tokens + token) * parameters.query_row + (first_head + row_of_query) * (SIZE / 2u)
        + pair_of_queries % (SIZE / 2u);
#ifdef APPENDS
    // The new key is no key of the cache yet: another work group may be storing it there.
    uint last_loaded = past == 0u ? 1u : min(seen.y, past - 1u);
    uint angles = past;
    if (HAS_POSITIONS) {
        angles = words_position[BASE_WORD(position) + 2u * sequence]; // the low word
    }
    angles = min(angles, parameters.table_rows - 1u);
    uint pair_of_head = pair_of_queries % (SIZE / 2u);
    ROTATED_PAIR(query_bits, query, query - pair_of_head, pair_of_head, angles)
    query_bits = ROUNDED_PAIR(query_bits);
#else
    uint last_loaded = seen.y;
    uvec2 query_bits = PAIR_BITS(query, query);
#endif
    uvec4 keys[EIGHTS];
    uvec2 values[VALUES_OF_ITERATION];
    uint first_eight = (BASE_WORD(keys) >> 2u) + (first_row + min(own_key, last_loaded)) * (SIZE / 8u);
    [[unroll]] for (uint eight = 0u; eight < EIGHTS; ++eight) {
        if (eight < SIZE / 8u) { keys[eight] = fours_keys[first_eight + eight]; }
    }
    LOAD_VALUES(0u)
    if (invocation < ROWS * (SIZE / 2u)) {
        vec2 pair = uintBitsToFloat(query_bits);
        queries[invocation / 2u][2u * (invocation & 1u)] = pair.x;
        queries[invocation / 2u][2u * (invocation & 1u) + 1u] = pair.y;
    }
    if (invocation < ROWS) { least[invocation] = UNSEEN; }
#ifdef APPENDS
    bool has_new_key = past < parameters.capacity && segment == past / KEYS;
    uvec2 new_value = uvec2(0u);
    if (has_new_key) {
        bool is_first = first_of_group == 0u;
        new_value = appended_value(sequence, key_head, past, lane, is_first && chain == CHAINS - 1u);
        if (invocation < SIZE / 2u) { append_key(sequence, key_head, past, angles, invocation, is_first); }
    }
#endif
    barrier();
#ifdef APPENDS
    if (has_new_key && own_key == past) {
        [[unroll]] for (uint eight = 0u; eight < EIGHTS; ++eight) {
            if (eight < SIZE / 8u) {
                keys[eight] = uvec4(new_key[4u * eight], new_key[4u * eight + 1u], new_key[4u * eight + 2u], new_key[4u * eight + 3u]);
            }
        }
    }
#endif
    float products[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
        products[r] = 0.0;
    }
    // Behind the last key a chain has nothing to add: where a core has a second work group, of a segment that has just begun, that
    // takes little from the first one.
    uint first_of_chain = begin + chain * CHAIN;
    bool has_chain = first_of_chain <= seen.y && first_of_chain + CHAIN > seen.x;
    uint eights = has_chain ? SIZE / 8u : 0u;
    uint keys_of_chain = has_chain ? min(CHAIN, seen.y + 1u - first_of_chain) : 0u;
    [[dont_unroll]] for (uint first = 0u; first < eights; first += EIGHTS_OF_ITERATION) {
        [[unroll]] for (uint eight = 0u; eight < EIGHTS_OF_ITERATION; ++eight) {
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                vec2 one = uintBitsToFloat(float32_from_float16_pair(keys[eight][2u * i]));
                vec2 other = uintBitsToFloat(float32_from_float16_pair(keys[eight][2u * i + 1u]));
                [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                    vec4 four = queries[r * (SIZE / 4u) + 2u * (first + eight) + i];
                    products[r] = exact_product_plus(four.x, one.x, products[r]);
                    products[r] = exact_product_plus(four.y, one.y, products[r]);
                    products[r] = exact_product_plus(four.z, other.x, products[r]);
                    products[r] = exact_product_plus(four.w, other.y, products[r]);
                }
            }
        }
        [[unroll]] for (uint eight = EIGHTS_OF_ITERATION; eight < EIGHTS; ++eight) {
            keys[eight - EIGHTS_OF_ITERATION] = keys[eight];
        }
    }
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
        OWN_SHARE(r) = products[r];
    }
    bool is_seen = own_key >= seen.x && own_key <= seen.y;
    [[dont_unroll]] for (uint r = 0u; r < ROWS; ++r) {
        float score = score_of(OWN_SHARE(r), sequence, first_head + min(first_of_group + r, GROUP - 1u), token, own_key);
        OWN_SHARE(r) = score;
        if (is_seen) { atomicMin(least[r], order_of(score)); }
    }
    barrier();
    [[dont_unroll]] for (uint r = 0u; r < ROWS; ++r) {
        float peak = peak_of(least[r]);
        precise float below = OWN_SHARE(r) - peak;
        OWN_SHARE(r) = is_seen && floatBitsToUint(peak) != 0xff800000u ? share_of(below) : 0.0;
    }
    barrier();
    vec4 sums[ROWS];
    float totals[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
        sums[r] = vec4(0.0);
        totals[r] = 0.0;
    }
    // Keys that are not seen have a share of 0, and a value of 0 here: with them no bit of a sum is another one.
    [[dont_unroll]] for (uint first_in_chain = 0u; first_in_chain < keys_of_chain; first_in_chain += VALUES_OF_ITERATION) {
        uvec2 bits[VALUES_OF_ITERATION];
        [[unroll]] for (uint i = 0u; i < VALUES_OF_ITERATION; ++i) {
            uint key = first_of_chain + first_in_chain + i;
            bits[i] = key >= seen.x && key <= seen.y ? values[i] : uvec2(0u);
#ifdef APPENDS
            bits[i] = has_new_key && key == past ? new_value : bits[i];
#endif
        }
        LOAD_VALUES(first_in_chain + VALUES_OF_ITERATION) // behind the last ones, others that are not looked at
        [[unroll]] for (uint four = 0u; four < VALUES_OF_ITERATION / 4u; ++four) {
            vec4 own[ROWS];
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                own[r] = shares[(r * KEYS + chain * CHAIN + first_in_chain) / 4u + four];
            }
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                vec2 one = uintBitsToFloat(float32_from_float16_pair(bits[4u * four + i].x));
                vec2 other = vec2(0.0);
                if (VALUE_SIZE != 64u) { other = uintBitsToFloat(float32_from_float16_pair(bits[4u * four + i].y)); }
                [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                    float share = own[r][i];
                    precise float next = totals[r] + share;
                    totals[r] = next;
                    sums[r].x = WITH_PRODUCT(sums[r].x, share, one.x);
                    sums[r].y = WITH_PRODUCT(sums[r].y, share, one.y);
                    if (VALUE_SIZE != 64u) {
                        sums[r].z = WITH_PRODUCT(sums[r].z, share, other.x);
                        sums[r].w = WITH_PRODUCT(sums[r].w, share, other.y);
                    }
                }
            }
        }
    }
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
        if (lane == 0u) { chain_totals[r * CHAINS + chain] = totals[r]; }
    }
    [[dont_unroll]] for (uint block = 0u; block < VALUE_SIZE / 64u; ++block) {
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
            chain_sums[(r * CHAINS + chain) * CHAIN + lane] = block == 0u ? sums[r].xy : sums[r].zw;
        }
        barrier();
        uint r = chain - block * ROWS;
        if (r < ROWS && first_of_group + r < GROUP) {
            uint row = (key_head * parameters.tokens + token) * GROUP + first_of_group + r;
            uint part = BASE_WORD(result) + (row * parameters.segments + segment) * (VALUE_SIZE + 2u);
            store_part(part, r, lane, block);
        }
        barrier();
    }
}
