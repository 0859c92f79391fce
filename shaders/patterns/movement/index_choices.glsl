// What an index means. Whoever includes this declares before whether indices are signed, INDEX_IS_SIGNED.

// An index of any type, as a number of 64 bits.
struct Index {
    uint low, high;
};

bool is_negative(Index index) { return INDEX_IS_SIGNED && int(index.high) < 0; }

// The place that an index means among so many; negative ones count from the end. Those outside mean the nearest one.
uint nearest_choice(Index index, uint choices) {
    uint from_end = index.high == 0xffffffffu && index.low >= 0u - choices ? index.low + choices : 0u;
    uint from_start = index.high != 0u ? choices - 1u : min(index.low, choices - 1u);
    return is_negative(index) ? from_end : from_start;
}

// The same; those outside mean none, which is told by a number that is not below `choices`.
uint choice_or_none(Index index, uint choices) {
    uint from_end = index.high == 0xffffffffu && index.low >= 0u - choices ? index.low + choices : 0xffffffffu;
    uint from_start = index.high == 0u ? index.low : 0xffffffffu;
    return is_negative(index) ? from_end : from_start;
}
