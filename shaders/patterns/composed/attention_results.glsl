// CACHED_ATTENTION: which keys a query sees, and what becomes of its sums. Included behind cached_attention.glsl; `parameters` has
// the member window too, and there is a buffer `sink`.

#include "shares.glsl"

#define KEYS 256u // of a segment: keys of neighbouring places, wherever the cache ends

layout(constant_id = 2) const uint VALUE_SIZE = 64u;
layout(constant_id = 3) const uint GROUP = 1u; // heads of queries for each head of keys
layout(constant_id = 4) const uint KEY_HEADS = 1u;
layout(constant_id = 5) const bool IS_CAUSAL = true;
layout(constant_id = 6) const bool HAS_SINK = false; // a score for each head
layout(constant_id = 7) const bool HAS_EMPTY_SINK = false; // a score of 0

// The first and the last key that a token sees.
uvec2 seen_by(uint past, uint token) {
    uint own = past + token;
    uint last = IS_CAUSAL ? own : past + parameters.tokens - 1u;
    uint first = parameters.window != 0u && own >= parameters.window ? own + 1u - parameters.window : 0u;
    return uvec2(first, min(last, parameters.capacity - 1u));
}

// The bits of the result of a sum: of float32.
uint result_of(float sum, float total, float peak, uint head) {
    if (floatBitsToUint(peak) == 0xff800000u) {
        return 0u; // it sees nothing
    }
    float own = sum;
    float all = total;
    if (HAS_SINK || HAS_EMPTY_SINK) {
        float score = 0.0;
        if (HAS_SINK) { score = uintBitsToFloat(NUMBER_AT(sink, head)); }
        vec2 weights = weights_of(peak, score);
        own = weighted(own, 0.0, weights);
        all = weighted(all, 1.0, weights);
    }
    return divide_f32(as_result(own), as_result(all));
}
