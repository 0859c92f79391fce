// CACHED_ATTENTION where caches keep a window: their keys or values go into the memory that attention goes through, zeros before them;
// or, with IS_KEPT, the latest of those there into the cache, zeros behind them.

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_source; // where operands begin in their buffers, in words
    uint base_rows, base_target, work_items;
    uint heads; // of a sequence
    uint pairs; // of a row
    uint source_capacity, target_capacity;
    uint target_rows; // of a head, that are gone through
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, source)
BUFFER(1, rows)
BUFFER(2, target)

layout(constant_id = 2) const bool IS_KEPT = false;
layout(constant_id = 3) const bool IS_IN_PLACE = false; // whether the cache has the rows of the past already

#include "pairs.glsl"
#include "composed/cache_elements.glsl"

void main() {
    WORK_ITEM(item)
    uint row = item / parameters.pairs;
    uint pair = item - row * parameters.pairs;
    uint head = row / parameters.target_rows; // of all sequences
    row -= head * parameters.target_rows;
    uint of_sequence = BASE_WORD(rows) + 4u * (head / parameters.heads);
    uint past_begin = words_rows[of_sequence];
    uint past_count = words_rows[of_sequence + 1u];
    uint to = (head * parameters.target_capacity + row) * parameters.pairs + pair;
    uint from = head * parameters.source_capacity;
    bool is_there = false;
    if (IS_KEPT) {
        uint begin = words_rows[of_sequence + 2u];
        if (IS_IN_PLACE && begin == past_begin && row < past_count) { return; }
        from += begin + row;
        is_there = row < words_rows[of_sequence + 3u];
    } else {
        if (row >= past_begin + past_count) { return; }
        from += row - past_begin;
        is_there = row >= past_begin;
    }
    if (is_there) {
        MOVE_CACHED_PAIR(target, to, source, from * parameters.pairs + pair);
    } else {
        CLEAR_CACHED_PAIR(target, to);
    }
}
