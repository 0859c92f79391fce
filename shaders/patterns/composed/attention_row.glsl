// CACHED_ATTENTION: what one query makes of a segment of 256 keys, with the bits of attention_segments.glsl; but all keys and values that
// an invocation computes with are on their way before the first of them is waited for. Heads have 64 or 128 FLOAT16.
#ifndef ATTENTION_ROW_GLSL
#define ATTENTION_ROW_GLSL
#extension GL_EXT_control_flow_attributes : enable

layout(local_size_x = 256) in;

#define IS_OF_SEGMENTS
#include "composed/attention_operands.glsl"
#include "error_free.glsl"

#define CHAIN 32u
#define CHAINS 8u
#define BLOCKS 2u // of 32 pairs, in the largest head
#define EIGHTS 16u // of elements, in the largest head

shared float queries[8u * EIGHTS];
shared float shares[KEYS];
shared vec2 chain_sums[BLOCKS * CHAINS * CHAIN];
shared float chain_totals[CHAINS];
shared uint least; // of the places of scores from the largest down

// Values of a block of pairs, of all keys of a chain. What stands in main() as it is: arrays that functions share are kept in memory by
// some drivers.
#define LOAD_VALUES(block) \
    [[unroll]] for (uint i = 0u; i < CHAIN; ++i) { \
        if ((block) * CHAIN < VALUE_SIZE / 2u) { \
            uint key = min(begin + chain * CHAIN + i, seen.y); \
            values[(block) * CHAIN + i] = words_values[BASE_WORD(values) + (first_row + key) * (VALUE_SIZE / 2u) + (block) * CHAIN + lane]; \
        } \
    }

void main()
{
    uint group = work_group_index();
    if (group >= parameters.work_items) {
        return;
    }
    uint invocation = index_in_group();
    uint tile = group % parameters.tiles;
    uint rows = parameters.tokens * GROUP;
    uint key_head = tile / rows; // of all sequences
    uint row = tile - key_head * rows;
    uint sequence = key_head / KEY_HEADS;
    uint token = row / GROUP;
    uint head = (key_head - sequence * KEY_HEADS) * GROUP + row % GROUP;
    uint segment = group / parameters.tiles;
    uint begin = segment * KEYS;
    uvec2 seen = seen_by(past_of(sequence), token);
    if (segment < seen.x / KEYS || segment > seen.y / KEYS) {
        return;
    }
    uint chain = invocation / CHAIN;
    uint lane = invocation % CHAIN;
    uint own_key = begin + invocation;
    uint first_row = key_head * parameters.capacity;
    uint query = ((sequence * parameters.tokens + token) * parameters.query_row + head * (SIZE / 2u)) + min(invocation, SIZE / 2u - 1u);
    uvec2 query_bits = PAIR_BITS(query, query);
    uvec4 keys[EIGHTS];
    uint values[BLOCKS * CHAIN];
    uint first_eight = (BASE_WORD(keys) >> 2u) + (first_row + min(own_key, seen.y)) * (SIZE / 8u);
    [[unroll]] for (uint eight = 0u; eight < EIGHTS; ++eight) {
        if (eight < SIZE / 8u) {
            keys[eight] = fours_keys[first_eight + eight];
        }
    }
    LOAD_VALUES(0u)
    if (invocation < SIZE / 2u) {
        queries[2u * invocation] = uintBitsToFloat(query_bits.x);
        queries[2u * invocation + 1u] = uintBitsToFloat(query_bits.y);
    }
    if (invocation == 0u) {
        least = UNSEEN;
    }
    barrier();
    float product = 0.0;
    [[unroll]] for (uint eight = 0u; eight < EIGHTS; ++eight) {
        if (eight < SIZE / 8u) {
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                vec2 key = uintBitsToFloat(float32_from_float16_pair(keys[eight][i]));
                product = exact_product_plus(queries[8u * eight + 2u * i], key.x, product);
                product = exact_product_plus(queries[8u * eight + 2u * i + 1u], key.y, product);
            }
        }
    }
    LOAD_VALUES(1u)
    bool is_seen = own_key >= seen.x && own_key <= seen.y;
    float score = score_of(product, sequence, head, token, own_key);
    if (is_seen) {
        atomicMin(least, order_of(score));
    }
    barrier();
    float peak = peak_of(least);
    precise float below = score - peak;
    shares[invocation] = is_seen && floatBitsToUint(peak) != 0xff800000u ? share_of(below) : 0.0;
    barrier();
    float total = 0.0;
    vec2 sums[BLOCKS];
    [[unroll]] for (uint block = 0u; block < BLOCKS; ++block) {
        sums[block] = vec2(0.0);
    }
    // Keys that are not seen have a share of 0, and a value of 0 here: with them no bit of a sum is another one.
    [[unroll]] for (uint i = 0u; i < CHAIN; ++i) {
        uint key = begin + chain * CHAIN + i;
        float share = shares[chain * CHAIN + i];
        precise float next = total + share;
        total = next;
        [[unroll]] for (uint block = 0u; block < BLOCKS; ++block) {
            if (block * CHAIN < VALUE_SIZE / 2u) {
                uint word = key >= seen.x && key <= seen.y ? values[block * CHAIN + i] : 0u;
                vec2 value = uintBitsToFloat(float32_from_float16_pair(word));
                sums[block] = vec2(WITH_PRODUCT(sums[block].x, share, value.x), WITH_PRODUCT(sums[block].y, share, value.y));
            }
        }
    }
    [[unroll]] for (uint block = 0u; block < BLOCKS; ++block) {
        chain_sums[(block * CHAINS + chain) * CHAIN + lane] = sums[block];
    }
    if (lane == 0u) {
        chain_totals[chain] = total;
    }
    barrier();
    if (chain * CHAIN >= VALUE_SIZE / 2u || chain >= BLOCKS) {
        return;
    }
    precise vec2 sum = chain_sums[chain * CHAINS * CHAIN + lane];
    precise float all = chain_totals[0];
    [[unroll]] for (uint other = 1u; other < CHAINS; ++other) {
        sum = sum + chain_sums[(chain * CHAINS + other) * CHAIN + lane];
        all = all + chain_totals[other];
    }
    vec2 weights = weights_of(NO_PEAK, peak);
    uint part = BASE_WORD(result) + ((key_head * rows + row) * parameters.segments + segment) * (VALUE_SIZE + 2u);
    if (chain == 0u && lane == 0u) {
        words_result[part] = floatBitsToUint(larger_peak(NO_PEAK, peak));
        words_result[part + 1u] = floatBitsToUint(weighted(0.0, all, weights));
    }
    uint pair = chain * CHAIN + lane;
    words_result[part + 2u + 2u * pair] = floatBitsToUint(weighted(0.0, sum.x, weights));
    words_result[part + 3u + 2u * pair] = floatBitsToUint(weighted(0.0, sum.y, weights));
}

#endif
