// Products of floats: significands in two words, whose exponents are added up apart, so that nothing overflows on the way.
#extension GL_EXT_control_flow_attributes : require
#define STATE_WORDS 5
#include "rows/reduction_operands.glsl"
#include "double_sums.glsl"

#define HAS_ZERO 16u
#define HAS_ANY_INFINITY 32u

// The magnitude of the high word is from 1 up to 2. The exponent is right modulo 2^32, and `size` is about as large.
struct State {
    Double significand;
    int exponent;
    float size;
    uint flags;
};
#define EMPTY_STATE State(Double(1.0, 0.0), 0, 0.0, 0u)
#define EACH_STATE_WORD(DO) DO(0) DO(1) DO(2) DO(3) DO(4)
#define state_word_0(state) floatBitsToUint(state.significand.high)
#define state_word_1(state) floatBitsToUint(state.significand.low)
#define state_word_2(state) uint(state.exponent)
#define state_word_3(state) floatBitsToUint(state.size)
#define state_word_4(state) state.flags
#define state_of_words(words) \
    State(Double(uintBitsToFloat(words[0]), uintBitsToFloat(words[1])), int(words[2]), uintBitsToFloat(words[3]), words[4])

State joined(State a, State b) {
    Double product = two_product(a.significand.high, b.significand.high);
    precise float cross = a.significand.high * b.significand.low + a.significand.low * b.significand.high;
    precise float low = product.low + cross;
    low = int(floatBitsToUint(low) & MAGNITUDE_F32) < 0x21800000 ? 0.0 : low; // 2^-60: nothing ever becomes denormal
    Double total = fast_two_sum(product.high, low);
    int own = int((floatBitsToUint(total.high) >> 23) & 0xffu) - 127;
    precise float size = a.size + b.size;
    size = size + float(own);
    return State(scaled_double(total, -own), a.exponent + b.exponent + own, size, a.flags | b.flags);
}

State state_of_element(uint x, bool is_element) {
    uint magnitude = x & MAGNITUDE_F32;
    uint flags = int(magnitude) > int(INFINITY_F32) ? HAS_NAN : magnitude == INFINITY_F32 ? HAS_ANY_INFINITY : 0u;
    flags |= int(magnitude) < int(SMALLEST_NORMAL_F32) ? HAS_ZERO : 0u;
    int exponent = flags == 0u ? int(magnitude >> 23) - 127 : 0;
    uint significand = (x & 0x807fffffu) | ONE_F32;
    return State(Double(uintBitsToFloat(is_element ? significand : ONE_F32), 0.0), is_element ? exponent : 0,
        is_element ? float(exponent) : 0.0, is_element ? flags : 0u);
}

State with_block(State state, Block block, uint first, uint count) {
    State left = joined(state_of_element(block.a, true), state_of_element(block.b, count > 1u));
    State right = joined(state_of_element(block.c, count > 2u), state_of_element(block.d, count > 3u));
    return joined(state, joined(left, right));
}

void begin_row() {}

uint finished(State state) {
    uint sign = floatBitsToUint(state.significand.high) & SIGN_F32;
    bool is_zero = (state.flags & HAS_ZERO) != 0u;
    bool is_infinite = (state.flags & HAS_ANY_INFINITY) != 0u;
    if ((state.flags & HAS_NAN) != 0u || (is_zero && is_infinite)) { return NAN_F32; }
    if (is_zero || is_infinite) { return sign | (is_infinite ? INFINITY_F32 : 0u); }
    int size_bits = floatBitsToInt(state.size);
    if ((size_bits & MAGNITUDE_F32) > 0x44800000) { // 1024
        return size_bits < 0 ? sign : sign | INFINITY_F32;
    }
    return result_times_power(state.significand.high, state.exponent);
}

uint result_of(State state) {
    uint result = finished(state);
    return OUTPUT_WIDTH == 16u ? float16_from_float32(result) : result;
}

#ifdef SCAN
State with_element(State state, uint x) { return joined(state, state_of_element(x, true)); }
#define prefix_result_of(state) result_of(state)
#include "rows/scan.glsl"
#else
#include "rows/reduction.glsl"
#endif
