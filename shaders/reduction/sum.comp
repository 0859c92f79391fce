// Sums of floats: of elements or their magnitudes (TERMS 0), of squares (1), of e^(x - peak) (2), or of squared differences from a mean, as they are
// (3) or rounded (4). The peak (one word) and the mean (two words) are the row's companion. ENDING says what becomes of a sum.
#extension GL_EXT_control_flow_attributes : require
#define STATE_WORDS 7
#define RESULT_IS_WIDE
#include "rows/reduction_operands.glsl"
#include "term_sums.glsl"
#if TERMS == 2
#include "exponential.glsl"
#elif TERMS == 4
#include "rounded_squares.glsl"
#elif TERMS == 0 && !defined(SCAN)
#include "rounding_to_odd.glsl"
#include "window_average.glsl"
#endif

#ifdef SCAN
#define OF_MAGNITUDES (MODE == 1u)
#endif

#define AS_IT_IS 0u
#define DIVIDED 1u           // by the number of elements
#define SQUARE_ROOT 2u
#define LOGARITHM 3u
#define LOGARITHM_AND_PEAK 4u // and the peak is added
#define MEAN_IN_TWO_WORDS 5u
#define ROUNDED_MEAN 6u // of up to 256 elements of FLOAT16: their sum is exact, and nothing is rounded before the result

#define State TermSum
#define EMPTY_STATE EMPTY_SUM
#define EACH_STATE_WORD(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6)
#define EACH_USUAL_STATE_WORD(DO) DO(6) DO(0) DO(1)
#define EACH_SLOW_PATH_STATE_WORD(DO) DO(2) DO(3) DO(4) DO(5)
#define HAS_SLOW_PATH_WORDS(slot) ((shared_6[slot] & HAS_OUTER_TERMS) != 0u)
#define state_word_0(state) floatBitsToUint(state.ordinary.high)
#define state_word_1(state) floatBitsToUint(state.ordinary.low)
#define state_word_2(state) floatBitsToUint(state.small.high)
#define state_word_3(state) floatBitsToUint(state.small.low)
#define state_word_4(state) floatBitsToUint(state.large.high)
#define state_word_5(state) floatBitsToUint(state.large.low)
#define state_word_6(state) state.flags
#define DOUBLE_OF_WORDS(words, at) Double(uintBitsToFloat(words[at]), uintBitsToFloat(words[at + 1]))
#define state_of_words(words) \
    TermSum(DOUBLE_OF_WORDS(words, 0), DOUBLE_OF_WORDS(words, 2), DOUBLE_OF_WORDS(words, 4), words[6])

#define joined(a, b) joined_sums(a, b)

#if TERMS == 0
#define LEAST_ORDINARY LEAST_ORDINARY_TERM
#define LEAST_LARGE LEAST_LARGE_TERM
#define POWER 1
#else
#define LEAST_ORDINARY LEAST_ORDINARY_BASE
#define LEAST_LARGE LEAST_LARGE_BASE
#define POWER 2
#endif

uint companion_bits;
Double companion;

void begin_row() {
#if TERMS == 2
    companion_bits = words_companion[parameters.base_companion + row_number];
    companion = Double(as_float32(companion_bits), 0.0);
#elif TERMS >= 3
    uint offset = parameters.base_companion + 2u * row_offset(row_number, false); // laid out as the results are
    companion_bits = words_companion[offset];
    companion = Double(uintBitsToFloat(companion_bits), uintBitsToFloat(words_companion[offset + 1u]));
#endif
}

// What an element gives before it is squared.
#if TERMS >= 3
#define base_of(x) difference_from_mean(x, companion)
#else
Double base_of(uint x) { return Double(uintBitsToFloat(x), 0.0); }
#endif

#if TERMS == 0
#define term_of(base) (base)
#elif TERMS == 1
#define term_of(base) two_square(base.high)
#elif TERMS == 3
#define term_of(base) square_of(base)
#endif

#if TERMS == 2
// Below e^-60 a term is less than 2^-86, and there are less than 2^32 of them: nothing beside the peak's own, which is 1.
Double power_of(uint x, inout uint flags) {
    flags |= int(x & MAGNITUDE_F32) > int(INFINITY_F32) ? HAS_NAN : 0u;
    Double difference = two_sum(as_float32(x), -companion.high);
    int bits = floatBitsToInt(difference.high);
    // Of numbers of both signs the negative ones have the greater bits; -60 is 0xc2700000.
    bool is_term = (bits & 0x7fffffff) <= 0x42700000;
    Double exponent_of_power = Double(is_term ? difference.high : 0.0, is_term ? difference.low : 0.0);
    // A rounding error may be denormal, where it does not matter.
    exponent_of_power.low = scaled_number(exponent_of_power.low, 0);
    int exponent;
    Double power = exponential(exponent_of_power, exponent);
    Double exact = fast_two_sum(power.high, power.low);
    Double term = scaled_double(exact, exponent);
    return Double(is_term ? term.high : 0.0, is_term ? term.low : 0.0);
}

State with_block(State state, Block block, uint first, uint count) {
    Double zero = Double(0.0, 0.0);
    Double a = power_of(block.a, state.flags);
    Double b = power_of(block.b, state.flags);
    Double c = power_of(block.c, state.flags);
    Double d = power_of(block.d, state.flags);
    if (count < 4u) {
        d = zero;
        c = count < 3u ? zero : c;
        b = count < 2u ? zero : b;
    }
    return with_sum_of_four(state, sum_of_four(a, b, c, d));
}
#else
#if TERMS != 4
ADD_SLOW_PATH_TERM(add_on_slow_path, term_of, LEAST_ORDINARY, LEAST_LARGE)
#endif

// What the elements of a block give before they are squared: a, b, c, d.
#if TERMS >= 3
#define DECLARE_BASES(block, count) \
    Double a = base_of(block.a); \
    Double b = base_of(block.b); \
    Double c = base_of(block.c); \
    Double d = base_of(block.d); \
    if (count < 4u) { \
        Double zero = Double(0.0, 0.0); \
        d = zero; \
        c = count < 3u ? zero : c; \
        b = count < 2u ? zero : b; \
        a = count < 1u ? zero : a; \
    }
#else
#define DECLARE_BASES(block, count) \
    uint mask = OF_MAGNITUDES ? MAGNITUDE_F32 : 0xffffffffu; \
    Double a = base_of(count > 0u ? block.a & mask : 0u); \
    Double b = base_of(count > 1u ? block.b & mask : 0u); \
    Double c = base_of(count > 2u ? block.c & mask : 0u); \
    Double d = base_of(count > 3u ? block.d & mask : 0u);
#endif

#if TERMS == 4
State with_block(State state, Block block, uint first, uint count) {
    DECLARE_BASES(block, count)
    return with_four_squares(state, vec4(a.high, b.high, c.high, d.high));
}
#else
// The least of four magnitudes less one, of which zero is the greatest; and the greatest magnitude.
#define LEAST_AND_GREATEST \
    uint ma = floatBitsToUint(a.high) & MAGNITUDE_F32; \
    uint mb = floatBitsToUint(b.high) & MAGNITUDE_F32; \
    uint mc = floatBitsToUint(c.high) & MAGNITUDE_F32; \
    uint md = floatBitsToUint(d.high) & MAGNITUDE_F32; \
    uint least = min(min(ma - 1u, mb - 1u), min(mc - 1u, md - 1u)); \
    uint greatest = max(max(ma, mb), max(mc, md));

State with_block(State state, Block block, uint first, uint count) {
    DECLARE_BASES(block, count)
    LEAST_AND_GREATEST
    if (least >= LEAST_ORDINARY - 1u && greatest < LEAST_LARGE) {
        return with_sum_of_four(state, sum_of_four(term_of(a), term_of(b), term_of(c), term_of(d)));
    }
    add_on_slow_path(state, a);
    add_on_slow_path(state, b);
    add_on_slow_path(state, c);
    add_on_slow_path(state, d);
    return state;
}
#endif

#ifndef SCAN
// The sum of ordinary terms, and whether there were others.
#define QUICK_SUMS
#define QuickState Double
#define NO_QUICK_STATE Double(0.0, 0.0)
#define quick_joined(a, b) double_sum(a, b)
#define state_of_quick(sum) TermSum(sum, Double(0.0, 0.0), Double(0.0, 0.0), 0u)
#define quick_alone(sum) two_sum(sum.high, sum.low) // joined with none, but for zeros' signs
#define QUICK_WORDS 2
#define EACH_QUICK_WORD(DO) DO(0) DO(1)
#define quick_word_0(sum) floatBitsToUint(sum.high)
#define quick_word_1(sum) floatBitsToUint(sum.low)
#define quick_state_of_words(words) DOUBLE_OF_WORDS(words, 0)
#if PARTIALS
uint flags_so_far;
void begin_quick() { flags_so_far = 0u; }
bool is_quick_right() { return flags_so_far == 0u; }
QuickState quick_state_at(uint offset, uint step) {
    flags_so_far |= words_input[offset + 6u * step];
    return Double(uintBitsToFloat(words_input[offset]), uintBitsToFloat(words_input[offset + step]));
}
#else
uint least_so_far;
#if TERMS == 0
// Twice the least magnitude, less one, of which zero is the greatest; and the sum of magnitudes, which none is above.
float magnitudes_so_far;
void begin_quick() {
    least_so_far = 0xffffffffu;
    magnitudes_so_far = 0.0;
}
bool is_quick_right() { return least_so_far >= 2u * LEAST_ORDINARY - 1u && floatBitsToUint(magnitudes_so_far) < LEAST_LARGE; }
uint twice_less_one(uint bits) { return (bits << 1u) - 1u; }
QuickState quick_with_block(QuickState sum, Block block, uint count) {
    uvec4 bits = uvec4(count > 0u ? block.a : 0u, count > 1u ? block.b : 0u, count > 2u ? block.c : 0u, count > 3u ? block.d : 0u);
    vec4 magnitudes = uintBitsToFloat(bits & MAGNITUDE_F32);
    vec4 x = OF_MAGNITUDES ? magnitudes : uintBitsToFloat(bits);
    least_so_far = min(least_so_far, min(min(twice_less_one(bits.x), twice_less_one(bits.y)),
        min(twice_less_one(bits.z), twice_less_one(bits.w))));
    precise float sum_of_magnitudes = magnitudes_so_far + ((magnitudes.x + magnitudes.y) + (magnitudes.z + magnitudes.w));
    magnitudes_so_far = sum_of_magnitudes;
    return with_next_four(sum, sum_of_four_numbers(x));
}
#else
uint greatest_so_far;
void begin_quick() {
    least_so_far = 0xffffffffu;
    greatest_so_far = 0u;
}
#if TERMS == 4
bool is_quick_right() { return least_so_far >= LEAST_ORDINARY_FOUR && greatest_so_far < LEAST_LARGE_FOUR; }
QuickState quick_with_block(QuickState sum, Block block, uint count) {
    if (count == 0u) {
        return sum;
    }
    DECLARE_BASES(block, count)
    float four = sum_of_four_squares(vec4(a.high, b.high, c.high, d.high));
    least_so_far = min(least_so_far, floatBitsToUint(four));
    greatest_so_far = max(greatest_so_far, floatBitsToUint(four));
    return with_next_number(sum, four);
}
#else
bool is_quick_right() { return least_so_far >= LEAST_ORDINARY - 1u && greatest_so_far < LEAST_LARGE; }
QuickState quick_with_block(QuickState sum, Block block, uint count) {
    DECLARE_BASES(block, count)
    LEAST_AND_GREATEST
    least_so_far = min(least_so_far, least);
    greatest_so_far = max(greatest_so_far, greatest);
    return with_next_four(sum, sum_of_four(term_of(a), term_of(b), term_of(c), term_of(d)));
}
#endif
#endif
#endif
#endif
#endif

// The result where a sum is infinite or NaN.
#if TERMS == 0
#define special_sum(flags) special_sum_of_terms(flags)
#else
#define special_sum(flags) special_sum_of_squares(flags)
#endif

#ifdef SCAN
State with_element(State state, uint x) {
    add_on_slow_path(state, base_of(x));
    return state;
}
// Ordinary terms are multiples of 2^-123 and come to less than 2^123: the high word is the sum rounded.
uint prefix_result_of(State state) {
    uint high = floatBitsToUint(state.ordinary.high);
    uint result = (high & MAGNITUDE_F32) == 0u ? 0u : high;
    if ((state.flags & HAS_OUTER_TERMS) != 0u) {
        int exponent;
        Double total = sum_of_terms(state, POWER, exponent);
        result = is_zero_number(total.high) ? 0u : result_times_power(total.high, exponent);
    }
    result = (state.flags & (HAS_NAN | HAS_INFINITY | HAS_MINUS_INFINITY)) != 0u ? special_sum(state.flags) : result;
    return OUTPUT_WIDTH == 16u ? float16_from_float32(result) : result;
}
#ifdef WHOLE_ROWS
// What scan_rows.glsl asks for: the same of ordinary elements and zeros.
#define QuickState Double
#define NO_QUICK_STATE Double(0.0, 0.0)
#define quick_word_0(state) floatBitsToUint(state.high)
#define quick_word_1(state) floatBitsToUint(state.low)
#define quick_state_of_words(a, b) Double(uintBitsToFloat(a), uintBitsToFloat(b))
#define state_of_quick(sum) TermSum(sum, Double(0.0, 0.0), Double(0.0, 0.0), 0u)
#define quick_joined(a, b) normalized_sum(a, b)
// The least magnitude less one, of which zero is the greatest; and the greatest magnitude.
#define Seen uvec2
#define NOTHING_SEEN uvec2(0xffffffffu, 0u)
QuickState quick_with_element(QuickState sum, uint x, inout Seen seen) {
    uint magnitude = x & MAGNITUDE_F32;
    seen = uvec2(min(seen.x, magnitude - 1u), max(seen.y, magnitude));
    Double total = two_sum(sum.high, uintBitsToFloat(x));
    precise float low = sum.low + total.low;
    return fast_two_sum(total.high, low);
}
bool is_quick_right(Seen seen) { return seen.x >= LEAST_ORDINARY_TERM - 1u && seen.y < LEAST_LARGE_TERM; }
uint quick_result_of(QuickState sum) {
    uint high = floatBitsToUint(sum.high);
    uint result = (high & MAGNITUDE_F32) == 0u ? 0u : high;
    return OUTPUT_WIDTH == 16u ? float16_from_float32(result) : result;
}
#endif
#include "rows/scan.glsl"
#else
// As float32; the mean in two words has two.
uvec2 finished(State state) {
    uint special = state.flags & (HAS_NAN | HAS_INFINITY | HAS_MINUS_INFINITY);
    uint special_result = special_sum(state.flags);
#if TERMS == 2
    bool peak_is_special = int(companion_bits & MAGNITUDE_F32) >= int(INFINITY_F32);
    if (special != 0u || peak_is_special) {
        return uvec2(special != 0u ? NAN_F32 : companion_bits, 0u);
    }
    int power = 0;
#else
    const int power = POWER;
    if (special != 0u) {
        // The square root of infinity is infinite, the logarithm of -infinity is none.
        bool is_none = ENDING == LOGARITHM && int(special_result) < 0;
        return uvec2(is_none ? NAN_F32 : special_result, 0u);
    }
#endif
    int exponent;
#if TERMS == 4
    Double total = total_of_squares(state, exponent);
#else
    Double total = sum_of_terms(state, power, exponent);
#endif
    bool is_zero = is_zero_number(total.high);
    if (ENDING == DIVIDED || ENDING == MEAN_IN_TWO_WORDS) {
        Double mean = mean_of_total(total, parameters.elements);
        uint high = result_times_power(mean.high, exponent);
        if (ENDING == MEAN_IN_TWO_WORDS) {
            return mean_in_two_words(mean, exponent);
        }
        return uvec2(high, 0u);
    }
#if TERMS == 0
    if (ENDING == ROUNDED_MEAN) {
        float mean = uintBitsToFloat(rounded_to_odd(average_of(total, parameters.elements)));
        return uvec2(is_zero ? 0u : result_times_power(mean, exponent), 0u);
    }
#endif
    if (ENDING == SQUARE_ROOT) {
        return uvec2(is_zero ? 0u : root_of_double(total, exponent), 0u);
    }
    if (ENDING == LOGARITHM || ENDING == LOGARITHM_AND_PEAK) {
        Double logarithm = logarithm_of_double(total, exponent);
        if (ENDING == LOGARITHM_AND_PEAK) {
            Double sum = two_sum(companion.high, logarithm.high);
            precise float rest = sum.low + logarithm.low;
            precise float result = sum.high + rest;
            return uvec2(as_result(result), 0u);
        }
        bool is_negative = floatBitsToInt(total.high) < 0;
        uint result = is_negative ? NAN_F32 : as_result(logarithm.high);
        return uvec2(is_zero ? SIGN_F32 | INFINITY_F32 : result, 0u);
    }
    return uvec2(is_zero ? 0u : result_times_power(total.high, exponent), 0u);
}

uvec2 result_of(State state) {
    uvec2 result = finished(state);
    return OUTPUT_WIDTH == 16u ? uvec2(float16_from_float32(result.x), 0u) : result;
}

#ifdef IN_TILES
#include "rows/reduction_tiles.glsl"
#else
#include "rows/reduction.glsl"
#endif
#endif
