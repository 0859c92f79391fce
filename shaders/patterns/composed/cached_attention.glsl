// Attention over caches of keys and values: where rows lie, and which keys a query sees.
//
// The compile script passes ELEMENT_BITS (16 or 32). Elements are gone through in pairs: a head has an even number of them. Whoever
// includes this declares what cache_lengths.glsl asks for.

#include "pairs.glsl"

#if ELEMENT_BITS == 16
#define WITH_PRODUCT with_large_product
#else
#define WITH_PRODUCT with_product
#endif

#include "composed/cache_lengths.glsl"
