// CACHED_ATTENTION: what kernels that multiply queries with keys read and write. The compile script passes ELEMENT_BITS, and CACHE_BITS
// where the caches hold integers; BEAMS where a key may be that of another sequence; APPENDS where the kernel appends a token's keys and values itself, which has no bias; IS_OF_SEGMENTS is defined by those whose work groups may have one segment each.

layout(push_constant) uniform Parameters {
    uint base_query; // where operands begin in their buffers, in words
#ifdef APPENDS
    uint base_key, base_value, base_cosine, base_sine, base_position;
#else
    uint base_keys, base_values;
#endif
    uint base_ends, base_total;
#ifndef APPENDS
    uint base_bias;
#endif
    uint base_sink;
#ifdef CACHE_BITS
    uint base_key_scale, base_value_scale;
#endif
#ifdef BEAMS
    uint base_beams;
#endif
#ifdef APPENDS
    uint base_keys, base_values;
#endif
    uint base_result;
    uint work_items; // work groups
    uint tokens, capacity;
    uint window; // 0: none
#ifdef IS_OF_SEGMENTS
    uint tiles; // work groups for all rows
    uint segments; // of the caches
#endif
    uint query_row; // from token to token, in pairs
#ifdef APPENDS
    uint key_row, value_row;
    uint first_key; // where the first token's keys and values begin
    uint first_value;
    uint table_rows; // rows of both tables
#endif
    uint scale; // a float32, as the next two
    uint cap, inverse_cap;
#ifndef APPENDS
    uint bias_sequence; // steps between the elements of the bias
    uint bias_head, bias_token, bias_key;
    uint bias_keys; // how many there are
#endif
#ifdef BEAMS
    uint beam_width; // sequences of a group
    uint beam_places; // of each sequence
#endif
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, query)
#ifdef APPENDS
BUFFER(1, key)
BUFFER(2, value)
BUFFER(3, cosine)
BUFFER(4, sine)
BUFFER(5, position)
BUFFER(6, ends)
BUFFER(7, total)
BUFFER(8, sink)
BUFFER(9, keys)
BUFFER(10, values)
BUFFER(11, result)
#else
BUFFER(1, keys)
BUFFER(2, values)
BUFFER(3, ends)
BUFFER(4, total)
BUFFER(5, bias)
BUFFER(6, sink)
#ifdef CACHE_BITS
BUFFER(7, key_scale)
BUFFER(8, value_scale)
BUFFER(9, result)
#elif defined(BEAMS)
BUFFER(7, beams)
BUFFER(8, result)
#else
BUFFER(7, result)
#endif
#endif

#include "composed/cached_attention.glsl"
#include "composed/cache_elements.glsl"
#include "composed/attention_results.glsl"
#include "composed/attention_scores.glsl"
#include "composed/attention_beams.glsl"
