// CACHED_ATTENTION, at first, where caches keep a window or tokens are filled up: where the keys of each sequence lie in the memory that
// attention goes through. Keys of a place lie there at that place less a multiple of 256, the same for all of a sequence: so segments
// have the keys that they have in a cache that keeps all of them.

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_last; // where operands begin in their buffers, in words
    uint base_counts, base_ends, base_origins, base_rows, base_positions, work_items, tokens;
    uint capacity; // of a cache that keeps a window
    uint window; // 0: caches keep all keys
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, last)
BUFFER(1, counts)
BUFFER(2, ends)
BUFFER(3, origins)
BUFFER(4, rows)
BUFFER(5, positions)

layout(constant_id = 2) const bool HAS_COUNTS = false; // whether it is told how many tokens of each sequence are none that fill it up

// The keys that a cache keeps of so many tokens: ONNX Runtime's rule, by which several are given up at once.
uint kept_of(uint total) {
    if (parameters.window == 0u || total <= parameters.capacity) { return total; }
    uint together = parameters.capacity - parameters.window + 1u;
    return total - together * ((total - parameters.capacity + together - 1u) / together);
}

void main() {
    WORK_ITEM(item)
    uint sequence = item / parameters.tokens;
    uint token = item - sequence * parameters.tokens;
    uint total = uint(max(int(words_last[BASE_WORD(last) + sequence]), -1) + 1);
    uint own = min(parameters.tokens, total);
    if (HAS_COUNTS) { own = uint(min(max(int(words_counts[BASE_WORD(counts) + sequence]), 0), int(own))); }
    uint past = total - own;
    words_positions[BASE_WORD(positions) + 2u * item] = past + token; // of INT64
    words_positions[BASE_WORD(positions) + 2u * item + 1u] = 0u;
    if (token != 0u) { return; }
    uint first = past - kept_of(past); // whose key is in the cache's first row
    uint origin = first / 256u * 256u;
    words_ends[BASE_WORD(ends) + sequence] = past - origin + parameters.tokens - 1u;
    words_origins[BASE_WORD(origins)] = 0u; // no number of tokens: lengths are those in `ends`
    words_origins[BASE_WORD(origins) + 1u + sequence] = origin;
    uint rows = BASE_WORD(rows) + 4u * sequence;
    words_rows[rows] = first - origin;
    words_rows[rows + 1u] = past - first;
    words_rows[rows + 2u] = total - kept_of(total) - origin;
    words_rows[rows + 3u] = kept_of(total);
}
