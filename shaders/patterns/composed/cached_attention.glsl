// Attention over caches of keys and values: where rows lie, and which keys a query sees.
//
// The compile script passes ELEMENT_BITS (16 or 32). Elements are gone through in pairs: a head has an even number of them. Whoever
// includes this declares `parameters` with the members tokens and capacity, and the buffers `ends` and `total`.
#ifndef CACHED_ATTENTION_GLSL
#define CACHED_ATTENTION_GLSL

#include "pairs.glsl"

#if ELEMENT_BITS == 16
#define WITH_PRODUCT with_large_product
#else
#define WITH_PRODUCT with_product
#endif

// Whether `ends` has one number: how many keys all sequences have before their new tokens.
layout(constant_id = 12) const bool COUNTS_PAST = false;

// How many keys a sequence has in the cache before its new tokens. Whatever the lengths are, nothing outside is touched.
uint past_of(uint sequence)
{
    if (COUNTS_PAST) {
        return min(words_ends[BASE_WORD(ends)], parameters.capacity);
    }
    if (words_total[BASE_WORD(total)] == parameters.tokens) {
        return 0u;
    }
    int past = int(words_ends[BASE_WORD(ends) + sequence]) + 1 - int(parameters.tokens);
    return uint(min(max(past, 0), int(parameters.capacity)));
}

#endif
