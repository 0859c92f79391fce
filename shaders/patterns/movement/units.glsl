// What operators move at once, UNIT_BITS wide: elements, or several neighbours that move together.
#if UNIT_BITS == 128
#define UNIT uvec4
#define NO_UNIT uvec4(0u)
#define LOAD_UNIT(name, offset) fours_##name[(BASE_WORD(name) >> 2u) + (offset)]
#elif UNIT_BITS == 64
#define UNIT uvec2
#define NO_UNIT uvec2(0u)
#define LOAD_UNIT(name, offset) pairs_##name[(BASE_WORD(name) >> 1u) + (offset)]
#elif UNIT_BITS == 32
#define UNIT uint
#define NO_UNIT 0u
#define LOAD_UNIT(name, offset) words_##name[BASE_WORD(name) + (offset)]
#elif UNIT_BITS == 16
#define UNIT uint
#define NO_UNIT 0u
#define LOAD_UNIT(name, offset) LOAD(uint16, words_##name, BASE(16, name) + (offset))
#else
#define UNIT uint
#define NO_UNIT 0u
#define LOAD_UNIT(name, offset) LOAD(uint8, words_##name, BASE(8, name) + (offset))
#endif
