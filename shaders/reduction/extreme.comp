// The largest or smallest element of each row, or where it lies (ARG). Elements become unsigned keys of the same order, of which the
// greatest is sought: -0 is below +0, and NaN below all numbers, also where the smallest is sought.
#extension GL_EXT_control_flow_attributes : require
#ifdef WIDE
#define KEY_WORDS 2
#else
#define KEY_WORDS 1
#endif
#define STATE_WORDS (KEY_WORDS + ARG)
#if defined(WIDE) || ARG
#define RESULT_IS_WIDE
#endif
#define HAS_ANY_ORDER
#if !defined(WIDE) && !ARG
#define LOADS_NEXT_AHEAD
#endif
#include "rows/reduction_operands.glsl"
#include "comparison.glsl"

#define IS_SMALLEST (MODE % 2u == 1u)
#define TAKES_LAST (MODE / 2u == 1u) // of equals

// Places are there where they are what is sought. They grow with the element's number, or fall where the last of equals is sought; that of
// no element is the greatest.
struct State {
    ELEMENT key;
#if ARG
    uint offset;
#endif
};
#ifdef WIDE
#define LEAST_KEY uvec2(0u)
#define EACH_KEY_WORD(DO) DO(0) DO(1)
#define state_word_0(state) state.key.x
#define state_word_1(state) state.key.y
#define key_of_words(words) uvec2(words[0], words[1])
#define is_above(a, b) is_greater_u64(a, b)
#define SIGN uvec2(0u, 0x80000000u)
#else
#define LEAST_KEY 0u
#define EACH_KEY_WORD(DO) DO(0)
#define state_word_0(state) state.key
#define key_of_words(words) words[0]
#define is_above(a, b) (a > b)
#define SIGN 0x80000000u
#endif

#if ARG
#define EMPTY_STATE State(LEAST_KEY, 0xffffffffu)
#ifdef WIDE
#define EACH_STATE_WORD(DO) EACH_KEY_WORD(DO) DO(2)
#define state_word_2(state) state.offset
#else
#define EACH_STATE_WORD(DO) EACH_KEY_WORD(DO) DO(1)
#define state_word_1(state) state.offset
#endif
#define state_of_words(words) State(key_of_words(words), words[KEY_WORDS])
#else
#define EMPTY_STATE State(LEAST_KEY)
#define EACH_STATE_WORD(DO) EACH_KEY_WORD(DO)
#define state_of_words(words) State(key_of_words(words))
#endif

#if !defined(WIDE) && !ARG
// Floats in the order of their numbers, NaN lowest, whichever it is: integers of the same order, turned round by so many that NaN comes to lie
// in front of -infinity. Few instructions, as each element takes them.
#define IN_FRONT_OF_NUMBERS 0x7f800001u
uint float_key(uint x) {
    x ^= IS_SMALLEST ? SIGN : 0u;
    return (x ^ (uint(int(x) >> 31) & MAGNITUDE_F32)) - IN_FRONT_OF_NUMBERS;
}
uint float_of_key(uint key) {
    uint x = key + IN_FRONT_OF_NUMBERS;
    x ^= (uint(int(x) >> 31) & MAGNITUDE_F32) ^ (IS_SMALLEST ? SIGN : 0u);
    return is_nan_f32(x) ? NAN_F32 : x;
}
#elif !defined(WIDE)
// Where equal ones are told apart by their places, all NaN are equal.
uint float_key(uint x) {
    uint key = int(x) < 0 ? ~x : x ^ SIGN;
    key = IS_SMALLEST ? ~key : key;
    return is_nan_f32(x) ? 0u : key;
}
uint float_of_key(uint key) {
    uint ordered = IS_SMALLEST ? ~key : key;
    uint x = int(ordered) < 0 ? ordered ^ SIGN : ~ordered;
    return key == 0u ? NAN_F32 : x;
}
#endif

ELEMENT key_of(ELEMENT x) {
#ifndef WIDE
    if (KIND == FLOAT_KIND) { return float_key(x); }
#endif
    ELEMENT key = KIND == UNSIGNED_KIND ? x : x ^ SIGN;
    return IS_SMALLEST ? ~key : key;
}

ELEMENT element_of(ELEMENT key) {
#ifndef WIDE
    if (KIND == FLOAT_KIND) {
        uint x = float_of_key(key);
        return OUTPUT_WIDTH == 16u ? float16_from_float32(x) : x;
    }
#endif
    ELEMENT ordered = IS_SMALLEST ? ~key : key;
    return KIND == UNSIGNED_KIND ? ordered : ordered ^ SIGN;
}

// Elements behind the row's end repeat its last one.
ELEMENT higher_key(ELEMENT a, ELEMENT b) { return is_above(b, a) ? b : a; }
#if ARG
State joined(State a, State b) {
    bool takes_b = is_above(b.key, a.key) || (b.key == a.key && b.offset < a.offset);
    State chosen = a;
    if (takes_b) { chosen = b; }
    return chosen;
}

State with_block(State state, Block block, uint first, uint count) {
    ELEMENT a = key_of(block.a);
    ELEMENT b = key_of(block.b);
    ELEMENT c = key_of(block.c);
    ELEMENT highest = higher_key(higher_key(a, b), higher_key(c, key_of(block.d)));
    uint number = 3u;
    if (TAKES_LAST) {
        number = c == highest ? 2u : b == highest ? 1u : 0u;
        number = key_of(block.d) == highest ? 3u : number;
        number = ~(first + min(number, count - 1u));
    } else {
        number = first + (a == highest ? 0u : b == highest ? 1u : c == highest ? 2u : 3u);
    }
    return joined(state, State(highest, number));
}
#else
State joined(State a, State b) { return State(higher_key(a.key, b.key)); }

State with_block(State state, Block block, uint first, uint count) {
    ELEMENT left = higher_key(key_of(block.a), key_of(block.b));
    ELEMENT right = higher_key(key_of(block.c), key_of(block.d));
    return State(higher_key(state.key, higher_key(left, right)));
}
#endif

void begin_row() {}

#ifdef RESULT_IS_WIDE
uvec2 result_of(State state) {
#if ARG
    return uvec2(TAKES_LAST ? ~state.offset : state.offset, 0u);
#else
    return element_of(state.key);
#endif
}
#else
uint result_of(State state) { return element_of(state.key); }
#endif

#ifdef IN_TILES
#include "rows/reduction_tiles.glsl"
#else
#include "rows/reduction.glsl"
#endif
