// How an invocation loads its LANES neighbouring elements of a contiguous operand: 2 to 16 bytes at once.

#define WORDS_OF(bits) (LANES * bits / 32)

// FETCH(array, name, bits): the words of this invocation's LANES elements of one operand.
#define FETCH(array, name, bits) CONCATENATE(FETCH_, bits)(array, name)
#if LANES == 2
#define FETCH_8(array, name) FETCH_HALF(array, name)
#define FETCH_16(array, name) FETCH_1(array, name)
#define FETCH_32(array, name) FETCH_2(array, name)
#define FETCH_64(array, name) FETCH_4(array, name)
#elif LANES == 4
#define FETCH_8(array, name) FETCH_1(array, name)
#define FETCH_16(array, name) FETCH_2(array, name)
#define FETCH_32(array, name) FETCH_4(array, name)
#define FETCH_64(array, name) FETCH_8_WORDS(array, name)
#elif LANES == 8
#define FETCH_8(array, name) FETCH_2(array, name)
#define FETCH_16(array, name) FETCH_4(array, name)
#else
#define FETCH_8(array, name) FETCH_4(array, name)
#endif

#define FETCH_HALF(array, name) \
    uint array[1]; \
    array[0] = words_##name[BASE_WORD(name) + (group >> 1u)] >> ((group & 1u) * 16u);
#define FETCH_1(array, name) \
    uint array[1]; \
    array[0] = words_##name[BASE_WORD(name) + group];
#define FETCH_2(array, name) \
    uint array[2]; \
    { uvec2 pair = pairs_##name[(BASE_WORD(name) >> 1u) + group]; array[0] = pair.x; array[1] = pair.y; }
#define FETCH_4(array, name) \
    uint array[4]; \
    UNPACK_FOUR(array, 0, fours_##name[(BASE_WORD(name) >> 2u) + group])
#define FETCH_8_WORDS(array, name) \
    uint array[8]; \
    UNPACK_FOUR(array, 0, fours_##name[(BASE_WORD(name) >> 2u) + 2u * group]) \
    UNPACK_FOUR(array, 4, fours_##name[(BASE_WORD(name) >> 2u) + 2u * group + 1u])
#define UNPACK_FOUR(array, first, loaded) \
    { uvec4 four = loaded; array[first] = four.x; array[first + 1] = four.y; array[first + 2] = four.z; array[first + 3] = four.w; }
