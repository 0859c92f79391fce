// CACHED_ATTENTION, before: keys or values of the past go into the present cache, zeros behind what is appended.

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_past; // where operands begin in their buffers, in words
    uint base_ends, base_total, base_present, work_items, tokens, capacity, past_capacity;
    uint heads; // of a sequence
    uint pairs; // of a row
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, past)
BUFFER(1, ends)
BUFFER(2, total)
BUFFER(3, present)

#include "composed/cached_attention.glsl"
#include "composed/cache_elements.glsl"

void main() {
    WORK_ITEM(item)
    uint row = item / parameters.pairs;
    uint pair = item - row * parameters.pairs;
    uint head = row / parameters.capacity; // of all sequences
    uint offset = row - head * parameters.capacity;
    uint past = min(past_of(head / parameters.heads), parameters.past_capacity);
    if (offset < past) {
        uint source = (head * parameters.past_capacity + offset) * parameters.pairs + pair;
        MOVE_CACHED_PAIR(present, item, past, source);
    } else if (offset >= past + parameters.tokens) {
        CLEAR_CACHED_PAIR(present, item);
    }
}
