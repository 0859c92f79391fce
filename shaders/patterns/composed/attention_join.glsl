// CACHED_ATTENTION, last: what attention_segments.glsl made of each segment is joined, in the order of the segments.
#ifndef ATTENTION_JOIN_GLSL
#define ATTENTION_JOIN_GLSL
#extension GL_EXT_control_flow_attributes : enable

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_parts; // where operands begin in their buffers, in words
    uint base_ends;
    uint base_total;
    uint base_sink;
    uint base_output;
    uint work_items;
    uint tokens;
    uint capacity;
    uint window;
    uint segments;
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, parts)
BUFFER(1, ends)
BUFFER(2, total)
BUFFER(3, sink)
BUFFER(4, output)

#include "composed/cached_attention.glsl"
#include "composed/attention_results.glsl"

// Parts that are loaded at once: GPUs wait for each load of a loop.
#define PARTS_AT_ONCE 4u
// Where an invocation puts what it has loaded, by numbers that are not known before: it is gone through in a loop, since instructions
// that are executed once cost about as much as loads.
shared vec4 waiting[PARTS_AT_ONCE * 256u];
#define PART(offset) uintBitsToFloat(uvec2(words_parts[offset], words_parts[(offset) + 1u]))

void main()
{
    uint item = invocation_index();
    if (item >= parameters.work_items) {
        return;
    }
    uint row = item / (VALUE_SIZE / 2u); // of all heads of keys
    uint pair = item - row * (VALUE_SIZE / 2u);
    uint rows = parameters.tokens * GROUP;
    uint key_head = row / rows;
    uint within = row - key_head * rows;
    uint token = within / GROUP;
    uint sequence = key_head / KEY_HEADS;
    uint head = (key_head - sequence * KEY_HEADS) * GROUP + within % GROUP;
    uvec2 seen = seen_by(past_of(sequence), token);
    float peak = NO_PEAK;
    float total = 0.0;
    vec2 sum = vec2(0.0);
    uint first_part = BASE_WORD(parts) + row * parameters.segments * (VALUE_SIZE + 2u);
    for (uint first = seen.x / KEYS; first <= seen.y / KEYS; first += PARTS_AT_ONCE) {
        uint own = index_in_group();
        [[unroll]] for (uint i = 0u; i < PARTS_AT_ONCE; ++i) {
            uint part = first_part + min(first + i, seen.y / KEYS) * (VALUE_SIZE + 2u);
            waiting[i * 256u + own] = vec4(PART(part), PART(part + 2u + 2u * pair));
        }
        uint count = min(PARTS_AT_ONCE, seen.y / KEYS + 1u - first);
        [[dont_unroll]] for (uint i = 0u; i < count; ++i) {
            vec4 part = waiting[i * 256u + own];
            vec2 weights = weights_of(peak, part.x);
            total = weighted(total, part.y, weights);
            sum.x = weighted(sum.x, part.z, weights);
            sum.y = weighted(sum.y, part.w, weights);
            peak = larger_peak(peak, part.x);
        }
    }
    uint target = ((sequence * parameters.tokens + token) * KEY_HEADS * GROUP + head) * (VALUE_SIZE / 2u) + pair;
    uvec2 bits = uvec2(result_of(sum.x, total, peak, head), result_of(sum.y, total, peak, head));
    STORE_PAIR(output, target, bits);
}

#endif
