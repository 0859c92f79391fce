// Computes one vector of an output of LANES elements, for the walks that load and store vectors.
#include "fetch.glsl"

#define FETCHED(n, lane) LOAD(INPUT_##n, fetched_##n, lane)

// Computes one vector of the output from the arrays fetched_0 …, and stores it.
#define COMPUTE_LANE(lane) \
    { \
        VALUE(OUTPUT) value = APPLY(FETCHED, lane); \
        INSERT(OUTPUT_BITS, result, lane, value); \
    }
#if OUTPUT_BITS < 32
#define CLEAR(result) for (int i = 0; i < WORDS_OF(OUTPUT_BITS); ++i) { result[i] = 0u; }
#else
#define CLEAR(result)
#endif
#if LANES * OUTPUT_BITS == 32
#define STORE_VECTOR(result, at) words_output[BASE_WORD(output) + (at)] = result[0];
#elif LANES * OUTPUT_BITS == 64
#define STORE_VECTOR(result, at) pairs_output[(BASE_WORD(output) >> 1u) + (at)] = uvec2(result[0], result[1]);
#elif LANES * OUTPUT_BITS == 128
#define STORE_VECTOR(result, at) \
    fours_output[(BASE_WORD(output) >> 2u) + (at)] = uvec4(result[0], result[1], result[2], result[3]);
#else
#error an invocation must write 4, 8 or 16 bytes
#endif
#define COMPUTE_VECTOR(at) \
    { \
        uint result[WORDS_OF(OUTPUT_BITS)]; \
        CLEAR(result) \
        FOR_EACH_LANE(COMPUTE_LANE) \
        STORE_VECTOR(result, at) \
    }
