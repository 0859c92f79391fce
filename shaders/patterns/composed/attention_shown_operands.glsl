// CACHED_ATTENTION, where scores are an output: what kernels read that make a score for each key. The compile script passes
// ELEMENT_BITS, CACHE_BITS where the caches hold integers, and BEAMS where a key may be that of another sequence.

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_query; // where operands begin in their buffers, in words
    uint base_keys, base_ends, base_total, base_bias, base_sink, base_rows;
#ifdef CACHE_BITS
    uint base_key_scale;
#endif
#ifdef BEAMS
    uint base_beams;
#endif
    uint base_result, work_items, tokens, capacity;
    uint window; // 0: none
    uint query_row; // from token to token, in pairs
    uint scale; // a float32, as the next two
    uint cap, inverse_cap;
    uint bias_sequence; // steps between the elements of the bias
    uint bias_head, bias_token, bias_key;
    uint bias_keys; // how many there are
    uint all_rows; // of sequences, heads and tokens
    uint columns; // keys that the result has room for
#ifdef BEAMS
    uint beam_width; // sequences of a group
    uint beam_places; // of each sequence
#endif
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, query)
BUFFER(1, keys)
BUFFER(2, ends)
BUFFER(3, total)
BUFFER(4, bias)
BUFFER(5, sink)
BUFFER(6, rows)
#if defined(CACHE_BITS)
BUFFER(7, key_scale)
BUFFER(8, result)
#elif defined(BEAMS)
BUFFER(7, beams)
BUFFER(8, result)
#else
BUFFER(7, result)
#endif

#include "composed/cached_attention.glsl"
#include "composed/cache_elements.glsl"
#include "composed/attention_results.glsl"
#include "composed/attention_scores.glsl"
#include "composed/attention_beams.glsl"

// Of a row of the result: whose it is, and which keys it sees.
struct Row {
    uint sequence, head, token, past;
    uvec2 seen; // the first and the last
};

Row row_at(uint number) {
    uint line = number / parameters.tokens;
    uint sequence = line / (KEY_HEADS * GROUP);
    uint token = number - line * parameters.tokens;
    uint past = past_of(sequence);
    uvec2 seen = seen_by(past, token);
    if (!COUNTS_PAST) { // the tokens of a short text are filled up: those behind it see its keys
        seen.y = min(seen.y, words_ends[BASE_WORD(ends) + sequence]);
    }
    return Row(sequence, line - sequence * KEY_HEADS * GROUP, token, past, seen);
}

// The same bits as in attention_segments.comp: a sum in the order of a head's elements.
float score_at(Row row, uint key) {
    uint sequence = row.sequence;
    uint past = row.past;
    uint scale_head = row.head / GROUP;
    uint first_key = (sequence * KEY_HEADS + scale_head) * parameters.capacity;
    uint own = (sequence * parameters.tokens + row.token) * parameters.query_row + row.head * (SIZE / 2u);
    uint pairs = KEY_ROW(first_key, key) * (SIZE / 2u);
    float sum = 0.0;
    for (uint pair = 0u; pair < SIZE / 2u; ++pair) {
        vec2 a = uintBitsToFloat(PAIR_BITS(query, own + pair));
        vec2 b = uintBitsToFloat(CACHED_PAIR(keys, key, pairs + pair, scale_head * (SIZE / 2u) + pair));
        sum = WITH_PRODUCT(sum, a.x, b.x);
        sum = WITH_PRODUCT(sum, a.y, b.y);
    }
    return score_of(sum, sequence, row.head, row.token, key);
}
