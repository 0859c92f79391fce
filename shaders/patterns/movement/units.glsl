// What operators move at once, UNIT_BITS wide: elements, or several neighbours that move together.
#if UNIT_BITS == 128
#define UNIT uvec4
#define NO_UNIT uvec4(0u)
#define LOAD_UNIT(name, place) fours_##name[(BASE_WORD(name) >> 2u) + (place)]
#elif UNIT_BITS == 64
#define UNIT uvec2
#define NO_UNIT uvec2(0u)
#define LOAD_UNIT(name, place) pairs_##name[(BASE_WORD(name) >> 1u) + (place)]
#elif UNIT_BITS == 32
#define UNIT uint
#define NO_UNIT 0u
#define LOAD_UNIT(name, place) words_##name[BASE_WORD(name) + (place)]
#elif UNIT_BITS == 16
#define UNIT uint
#define NO_UNIT 0u
#define LOAD_UNIT(name, place) LOAD(uint16, words_##name, BASE(16, name) + (place))
#else
#define UNIT uint
#define NO_UNIT 0u
#define LOAD_UNIT(name, place) LOAD(uint8, words_##name, BASE(8, name) + (place))
#endif
