// Sums, sums of magnitudes, sums of squares and products of integers, modulo 2^32 or 2^64.
#extension GL_EXT_control_flow_attributes : require
#ifdef WIDE
#define STATE_WORDS 2
#define RESULT_IS_WIDE
#else
#define STATE_WORDS 1
#endif
#define HAS_ANY_ORDER
#include "rows/reduction_operands.glsl"

#define OF_MAGNITUDES (MODE == 1u)
#define OF_SQUARES (MODE == 2u)
#define IS_PRODUCT (MODE == 3u)

struct State {
    ELEMENT value;
};
#ifdef WIDE
#define EMPTY_STATE State(uvec2(IS_PRODUCT ? 1u : 0u, 0u))
#define EACH_STATE_WORD(DO) DO(0) DO(1)
#define state_word_0(state) state.value.x
#define state_word_1(state) state.value.y
#define state_of_words(words) State(uvec2(words[0], words[1]))

uvec2 plus(uvec2 a, uvec2 b) {
    uint low = a.x + b.x;
    return uvec2(low, a.y + b.y + uint(low < a.x));
}
uvec2 times(uvec2 a, uvec2 b) {
    uint high, low;
    umulExtended(a.x, b.x, high, low);
    return uvec2(low, high + a.x * b.y + a.y * b.x);
}
uvec2 negative(uvec2 a) { return plus(~a, uvec2(1u, 0u)); }
bool is_negative(uvec2 a) { return int(a.y) < 0; }
#define ZERO uvec2(0u)
#define ONE uvec2(1u, 0u)
#else
#define EMPTY_STATE State(IS_PRODUCT ? 1u : 0u)
#define EACH_STATE_WORD(DO) DO(0)
#define state_word_0(state) state.value
#define state_of_words(words) State(words[0])
uint plus(uint a, uint b) { return a + b; }
uint times(uint a, uint b) { return a * b; }
uint negative(uint a) { return 0u - a; }
bool is_negative(uint a) { return int(a) < 0; }
#define ZERO 0u
#define ONE 1u
#endif

ELEMENT term_of(ELEMENT x, bool is_element) {
    ELEMENT term = x;
    if (OF_SQUARES) { term = times(x, x); }
    if (OF_MAGNITUDES && KIND == SIGNED_KIND) { term = is_negative(x) ? negative(x) : x; }
    return is_element ? term : IS_PRODUCT ? ONE : ZERO;
}

State joined(State a, State b) { return State(IS_PRODUCT ? times(a.value, b.value) : plus(a.value, b.value)); }

State with_block(State state, Block block, uint first, uint count) {
    State left = joined(State(term_of(block.a, true)), State(term_of(block.b, count > 1u)));
    State right = joined(State(term_of(block.c, count > 2u)), State(term_of(block.d, count > 3u)));
    return joined(state, joined(left, right));
}

void begin_row() {}

ELEMENT result_of(State state) { return state.value; }

#ifdef SCAN
State with_element(State state, ELEMENT x) { return joined(state, State(x)); }
#define prefix_result_of(state) result_of(state)
#include "rows/scan.glsl"
#elif defined(IN_TILES)
#include "rows/reduction_tiles.glsl"
#else
#include "rows/reduction.glsl"
#endif
