// CACHED_ATTENTION, last: what attention_segments.comp made of each segment is joined, in the order of the segments.
#extension GL_EXT_control_flow_attributes : enable

layout(local_size_x = 32) in;

layout(push_constant) uniform Parameters {
    uint base_parts; // where operands begin in their buffers, in words
    uint base_ends, base_total, base_sink, base_output, work_items, tokens, capacity, window, segments;
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

#define PAIRS 32u // of a work group, all of one row
#define PARTS_OF_ITERATION 32u // that are loaded: GPUs wait for each load of a loop
#define HALF_ITERATION (PARTS_OF_ITERATION / 2u)
// Where an invocation puts what it has loaded, by numbers that are not known before: it is gone through in a loop, since instructions
// that are executed once cost about as much as loads.
shared vec2 waiting[PARTS_OF_ITERATION * PAIRS];
shared vec2 heads[PARTS_OF_ITERATION]; // peaks and totals
shared int ranks[PARTS_OF_ITERATION]; // of peaks
shared vec2 weights[PARTS_OF_ITERATION];
shared float last_peak;
// Parts have an even number of words.
#define PART(offset) uintBitsToFloat(pairs_parts[(offset) >> 1u])
// Half of a turn's parts; what stands in main() as it is: arrays that functions share are kept in memory by some drivers.
#define LOAD_HALF(into, from) \
    [[unroll]] for (uint i = 0u; i < HALF_ITERATION; ++i) { \
        into[i] = PART(sums_of_pair + min(first + (from) + i, last) * (VALUE_SIZE + 2u)); \
    }
#define PUT_HALF(from, loaded) \
    [[unroll]] for (uint i = 0u; i < HALF_ITERATION; ++i) { \
        waiting[((from) + i) * PAIRS + own] = loaded[i]; \
    }

int rank_of(float peak) { return rank_f32(floatBitsToUint(peak), ABOVE_ALL); }

void main() {
    WORK_GROUP(group)
    uint own = index_in_group();
    uint blocks = (VALUE_SIZE / 2u + PAIRS - 1u) / PAIRS;
    uint row = group / blocks; // of all heads of keys
    uint pair = (group - row * blocks) * PAIRS + own;
    uint rows = parameters.tokens * GROUP;
    uint key_head = row / rows;
    uint within = row - key_head * rows;
    uint token = within / GROUP;
    uint sequence = key_head / KEY_HEADS;
    uint head = (key_head - sequence * KEY_HEADS) * GROUP + within % GROUP;
    uvec2 seen = seen_by(past_of(sequence), token);
    uint last = seen.y / KEYS;
    float peak = NO_PEAK;
    float total = 0.0;
    vec2 sum = vec2(0.0);
    uint first_part = BASE_WORD(parts) + row * parameters.segments * (VALUE_SIZE + 2u);
    uint sums_of_pair = first_part + 2u + 2u * min(pair, VALUE_SIZE / 2u - 1u);
    for (uint first = seen.x / KEYS; first <= last; first += PARTS_OF_ITERATION) {
        uint count = min(PARTS_OF_ITERATION, last + 1u - first);
        vec2 head_of_part = PART(first_part + min(first + own, last) * (VALUE_SIZE + 2u));
        vec2 loaded[HALF_ITERATION];
        LOAD_HALF(loaded, 0u)
        if (count > HALF_ITERATION) { // all of them are under way before the first is waited for
            vec2 more[HALF_ITERATION];
            LOAD_HALF(more, HALF_ITERATION)
            PUT_HALF(HALF_ITERATION, more)
        }
        PUT_HALF(0u, loaded)
        heads[own] = head_of_part;
        ranks[own] = rank_of(head_of_part.x);
        barrier();
        // Each part's weights by an invocation of its own: they follow from the largest peak before it, the first of equal ones.
        if (own < count) {
            int largest = rank_of(peak);
            float there = peak;
            uint of_largest = own;
            for (uint i = 0u; i < own; ++i) {
                of_largest = ranks[i] > largest ? i : of_largest;
                largest = max(largest, ranks[i]);
            }
            if (of_largest != own) { there = heads[of_largest].x; }
            weights[own] = weights_of(there, head_of_part.x);
            if (own == count - 1u) { last_peak = larger_peak(there, head_of_part.x); }
        }
        barrier();
        for (uint i = 0u; i < count; ++i) {
            vec2 part = waiting[i * PAIRS + own];
            total = weighted(total, heads[i].y, weights[i]);
            sum.x = weighted(sum.x, part.x, weights[i]);
            sum.y = weighted(sum.y, part.y, weights[i]);
        }
        peak = last_peak;
        barrier();
    }
    if (pair >= VALUE_SIZE / 2u) { return; }
    uint target = ((sequence * parameters.tokens + token) * KEY_HEADS * GROUP + head) * (VALUE_SIZE / 2u) + pair;
    uvec2 bits = uvec2(result_of(sum.x, total, peak, head), result_of(sum.y, total, peak, head));
    STORE_PAIR(output, target, bits);
}
