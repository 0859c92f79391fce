// CACHED_ATTENTION, first: new keys and values go behind those that are in the caches; queries and keys are rotated by the angles
// of their places: (x, y) becomes (x * cos - y * sin, y * cos + x * sin). FLOAT16 results are rounded once.
//
// The compile script passes ELEMENT_BITS, and CACHE_BITS where the caches hold integers: cache_elements.glsl.

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_query; // where operands begin in their buffers, in words
    uint base_key, base_value, base_ends, base_total, base_cosine, base_sine, base_position;
#ifdef CACHE_BITS
    uint base_key_scale, base_value_scale;
#endif
    uint base_rotated, base_keys, base_values, work_items;
    uint tokens; // of a sequence
    uint capacity; // of the caches
    uint table_rows; // rows of both tables
    uint query_row; // from token to token in the operands, in pairs
    uint key_row, value_row;
    uint first_key; // where the first token's keys and values begin
    uint first_value;
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, query)
BUFFER(1, key)
BUFFER(2, value)
BUFFER(3, ends)
BUFFER(4, total)
BUFFER(5, cosine)
BUFFER(6, sine)
BUFFER(7, position)
#ifdef CACHE_BITS
BUFFER(8, key_scale)
BUFFER(9, value_scale)
BUFFER(10, rotated)
BUFFER(11, keys)
BUFFER(12, values)
#else
BUFFER(8, rotated)
BUFFER(9, keys)
BUFFER(10, values)
#endif

layout(constant_id = 2) const uint QUERY_PAIRS = 32u; // of a token: all heads' pairs of queries, none where they stay as they are
layout(constant_id = 3) const uint KEY_HEADS = 1u;
layout(constant_id = 4) const uint SIZE = 64u;
layout(constant_id = 5) const uint VALUE_SIZE = 64u;

#include "composed/cached_attention.glsl"
#include "composed/cache_elements.glsl"
#include "composed/attention_angles.glsl"

void main() {
    WORK_ITEM(item)
    uint key_pairs = KEY_HEADS * (SIZE / 2u);
    uint pairs = QUERY_PAIRS + key_pairs + KEY_HEADS * (VALUE_SIZE / 2u);
    uint token = item / pairs; // of all sequences
    uint pair = item - token * pairs;
    uint sequence = token / parameters.tokens;
    uint number = token - sequence * parameters.tokens;
    uint offset = past_of(sequence) + number; // among the sequence's keys
    uint row = offset;
    if (HAS_POSITIONS) {
        row = words_position[BASE_WORD(position) + 2u * token]; // the low word
    }
    row = min(row, parameters.table_rows - 1u);
    if (pair < QUERY_PAIRS) {
        uint head = pair / (SIZE / 2u);
        uint first = token * parameters.query_row + head * (SIZE / 2u);
        uint within = pair - head * (SIZE / 2u);
        ROTATED_PAIR(bits, query, first, within, row)
        STORE_PAIR(rotated, token * QUERY_PAIRS + pair, bits);
        return;
    }
    if (offset >= parameters.capacity) { return; }
    pair -= QUERY_PAIRS;
    if (pair < key_pairs) {
        uint head = pair / (SIZE / 2u);
        uint within = pair - head * (SIZE / 2u);
        uint first = parameters.first_key + token * parameters.key_row + head * (SIZE / 2u);
        uint target = ((sequence * KEY_HEADS + head) * parameters.capacity + offset) * (SIZE / 2u) + within;
#ifndef CACHE_BITS
        if (2u * within >= 2u * ROTATED) {
            MOVE_PAIR(keys, target, key, first + within);
            return;
        }
#endif
        ROTATED_PAIR(bits, key, first, within, row)
        STORE_CACHED_PAIR(keys, key, target, pair, bits);
        return;
    }
    pair -= key_pairs;
    uint head = pair / (VALUE_SIZE / 2u);
    uint within = pair - head * (VALUE_SIZE / 2u);
    uint source = parameters.first_value + token * parameters.value_row + pair;
    uint target = ((sequence * KEY_HEADS + head) * parameters.capacity + offset) * (VALUE_SIZE / 2u) + within;
#ifdef CACHE_BITS
    STORE_CACHED_PAIR(values, value, target, pair, PAIR_BITS(value, source));
#else
    MOVE_PAIR(values, target, value, source);
#endif
}
