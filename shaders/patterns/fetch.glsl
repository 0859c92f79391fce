// How an invocation loads its LANES neighbouring elements of an operand: 2 to 32 bytes at once, aligned. `at` counts such
// vectors from the operand's first element on.

#define WORDS_OF(bits) ((LANES * bits + 31) / 32)

// FETCH_AT(array, name, bits, at): fills an array of WORDS_OF(bits) words with one vector of an operand.
#define FETCH_AT(array, name, bits, at) CONCATENATE(FETCH_, bits)(array, name, at)
#if LANES == 2
#define FETCH_8(array, name, at) FETCH_HALF(array, name, at)
#define FETCH_16(array, name, at) FETCH_1(array, name, at)
#define FETCH_32(array, name, at) FETCH_2(array, name, at)
#define FETCH_64(array, name, at) FETCH_4(array, name, at)
#elif LANES == 4
#define FETCH_8(array, name, at) FETCH_1(array, name, at)
#define FETCH_16(array, name, at) FETCH_2(array, name, at)
#define FETCH_32(array, name, at) FETCH_4(array, name, at)
#define FETCH_64(array, name, at) FETCH_8_WORDS(array, name, at)
#elif LANES == 8
#define FETCH_8(array, name, at) FETCH_2(array, name, at)
#define FETCH_16(array, name, at) FETCH_4(array, name, at)
#else
#define FETCH_8(array, name, at) FETCH_4(array, name, at)
#endif

#define FETCH_HALF(array, name, at) \
    array[0] = words_##name[BASE_WORD(name) + ((at) >> 1u)] >> (((at) & 1u) * 16u);
#define FETCH_1(array, name, at) \
    array[0] = words_##name[BASE_WORD(name) + (at)];
#define FETCH_2(array, name, at) \
    { uvec2 pair = pairs_##name[(BASE_WORD(name) >> 1u) + (at)]; array[0] = pair.x; array[1] = pair.y; }
#define FETCH_4(array, name, at) \
    UNPACK_FOUR(array, 0, fours_##name[(BASE_WORD(name) >> 2u) + (at)])
#define FETCH_8_WORDS(array, name, at) \
    UNPACK_FOUR(array, 0, fours_##name[(BASE_WORD(name) >> 2u) + 2u * (at)]) \
    UNPACK_FOUR(array, 4, fours_##name[(BASE_WORD(name) >> 2u) + 2u * (at) + 1u])
#define UNPACK_FOUR(array, first, loaded) \
    { uvec4 four = loaded; array[first] = four.x; array[first + 1] = four.y; array[first + 2] = four.z; array[first + 3] = four.w; }
