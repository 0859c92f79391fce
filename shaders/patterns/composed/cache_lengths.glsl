// How many keys a sequence has in the cache before its new tokens. Whoever includes this declares the buffers `ends` and `total`, and
// `parameters` with the members tokens and capacity, or says what TOKENS and CAPACITY are.

#ifndef TOKENS
#define TOKENS parameters.tokens // new ones of a sequence
#define CAPACITY parameters.capacity // keys that a cache has room for
#endif

// Whether `ends` has one number: how many keys all sequences have before their new tokens.
layout(constant_id = 12) const bool COUNTS_PAST = false;

// How many keys a sequence has in the cache before its new tokens. Whatever the lengths are, nothing outside is touched.
uint past_of(uint sequence) {
    if (COUNTS_PAST) { return min(words_ends[BASE_WORD(ends)], CAPACITY); }
    // Both are loaded before the first is looked at.
    uint total = words_total[BASE_WORD(total)];
    int past = int(words_ends[BASE_WORD(ends) + sequence]) + 1 - int(TOKENS);
    return total == TOKENS ? 0u : uint(min(max(past, 0), int(CAPACITY)));
}
