// Elements of operands in pairs: a word of two float16, or two words of float32. ELEMENT_BITS says which; values are seen as float32.
//
// Included behind buffers.glsl. Places are counted in pairs from an operand's beginning, those of NUMBER_AT in elements.
#ifndef PAIRS_GLSL
#define PAIRS_GLSL

#include "datatypes.glsl"
#include "float16.glsl"
#include "float32.glsl"

#if ELEMENT_BITS == 16
#define ELEMENT float16
#define PAIR_WORDS 1u
#define PAIR_BITS(name, pair) float32_from_float16_pair(words_##name[BASE_WORD(name) + (pair)])
#define STORE_PAIR(name, pair, bits) \
    words_##name[BASE_WORD(name) + (pair)] = float16_from_float32((bits).x) | (float16_from_float32((bits).y) << 16u)
#define MOVE_PAIR(target, to, source, from) words_##target[BASE_WORD(target) + (to)] = words_##source[BASE_WORD(source) + (from)]
#define CLEAR_PAIR(target, to) words_##target[BASE_WORD(target) + (to)] = 0u
#define NUMBER_AT(name, offset) float32_from_float16(LOAD_float16(words_##name, 2u * BASE_WORD(name) + (offset)))
#else
#define ELEMENT float32
#define PAIR_WORDS 2u
#define PAIR_BITS(name, pair) \
    uvec2( \
        without_denormal(words_##name[BASE_WORD(name) + 2u * (pair)]), \
        without_denormal(words_##name[BASE_WORD(name) + 2u * (pair) + 1u]))
#define STORE_PAIR(name, pair, bits) \
    words_##name[BASE_WORD(name) + 2u * (pair)] = (bits).x, words_##name[BASE_WORD(name) + 2u * (pair) + 1u] = (bits).y
#define MOVE_PAIR(target, to, source, from) \
    words_##target[BASE_WORD(target) + 2u * (to)] = words_##source[BASE_WORD(source) + 2u * (from)], \
    words_##target[BASE_WORD(target) + 2u * (to) + 1u] = words_##source[BASE_WORD(source) + 2u * (from) + 1u]
#define CLEAR_PAIR(target, to) \
    words_##target[BASE_WORD(target) + 2u * (to)] = 0u, words_##target[BASE_WORD(target) + 2u * (to) + 1u] = 0u
#define NUMBER_AT(name, offset) without_denormal(words_##name[BASE_WORD(name) + (offset)])
#endif

#endif
