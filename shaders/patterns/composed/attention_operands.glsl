// CACHED_ATTENTION: what kernels that multiply queries with keys read and write. The compile script passes ELEMENT_BITS, and CACHE_BITS
// where the caches hold integers; IS_OF_SEGMENTS is defined by those whose work groups may have one segment each.
#ifndef ATTENTION_OPERANDS_GLSL
#define ATTENTION_OPERANDS_GLSL

layout(push_constant) uniform Parameters {
    uint base_query; // where operands begin in their buffers, in words
    uint base_keys;
    uint base_values;
    uint base_ends;
    uint base_total;
    uint base_bias;
    uint base_sink;
#ifdef CACHE_BITS
    uint base_key_scale;
    uint base_value_scale;
#endif
    uint base_result;
    uint work_items; // work groups
    uint tokens;
    uint capacity;
    uint window; // 0: none
#ifdef IS_OF_SEGMENTS
    uint tiles; // work groups for all rows
    uint segments; // of the caches
#endif
    uint query_row; // from token to token, in pairs
    uint scale; // a float32, as the next two
    uint cap;
    uint inverse_cap;
    uint bias_sequence; // steps between the elements of the bias
    uint bias_head;
    uint bias_token;
    uint bias_key;
    uint bias_keys; // how many there are
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, query)
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
#else
BUFFER(7, result)
#endif

#include "composed/cached_attention.glsl"
#include "composed/cache_elements.glsl"
#include "composed/attention_results.glsl"
#include "composed/attention_scores.glsl"

#endif
