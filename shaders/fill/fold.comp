// FOLD: the sum of all places of windows that an element lay in, in two words, by rising place; rounded once. AVERAGE_POOLING_GRAD:
// the same of each window's gradient, divided by how many elements the window counts. MAX_POOLING_GRAD: the same of the gradients of those
// windows whose largest element it is (HAS_INDICES).
#include "windows/folding.glsl"
#include "window_average.glsl"

#if OUTPUT_BITS == 16
#define NUMBER_AT(index) float32_from_float16(LOAD(OUTPUT, words_input, BASE(OUTPUT_BITS, input) + index))
#else
#define NUMBER_AT(index) LOAD(OUTPUT, words_input, BASE(OUTPUT_BITS, input) + index)
#endif

#define EXPONENT_BITS(exponent) (uint((exponent) + 127) << 23)

#define LOOK_AT(index, count) \
    { \
        uint x = NUMBER_AT(index); \
        uint magnitude = x & MAGNITUDE_F32; \
        largest = max(largest, magnitude); \
        found |= magnitude > INFINITY_F32 ? 1u : magnitude == INFINITY_F32 ? (int(x) < 0 ? 2u : 4u) : 0u; \
    }

// What is scaled lies from 2^-66 on: no step has a denormal. What is left out is below 2^-100 of the largest magnitude.
#define ADD(index, count) \
    { \
        uint x = NUMBER_AT(index); \
        x = (x & MAGNITUDE_F32) < least ? 0u : x; \
        precise float scaled = uintBitsToFloat(x) * factor; \
        sum = DIVIDES_BY_POSITIONS_INSIDE ? with_quotient(sum, scaled, count) : with_number(sum, scaled); \
    }

Double with_quotient(Double sum, float number, uint count) {
    Double share = quotient_by(Double(number, 0.0), count);
    Double total = two_sum(sum.high, share.high);
    precise float low = (sum.low + share.low) + total.low;
    return fast_two_sum(total.high, low);
}

#define STATE_WORDS 4u
#define STATE(word) words_state[BASE_WORD(state) + STATE_WORDS * number + word]

uint folded(uint number) {
    uint largest = 0u;
    uint found = 0u;
    Double sum = Double(0.0, 0.0);
    if (IN_PARTS && (parameters.adds != 0u || parameters.first != 0u)) {
        largest = STATE(0u);
        found = STATE(1u);
        sum = Double(uintBitsToFloat(STATE(2u)), uintBitsToFloat(STATE(3u)));
    }
    if (!IN_PARTS || parameters.adds == 0u) {
        FOR_EACH_ADDEND(number, LOOK_AT)
    }
    if (IN_PARTS && parameters.adds == 0u) {
        STATE(0u) = largest;
        STATE(1u) = found;
        STATE(2u) = 0u;
        STATE(3u) = 0u;
        return 0u;
    }
    if (found != 0u) {
        uint infinite = found == 2u ? 0xff800000u : found == 4u ? 0x7f800000u : 0x7fc00000u;
#if OUTPUT_BITS == 16
        return float16_from_float32(infinite);
#else
        return infinite;
#endif
    }
    float factor = 1.0;
    int exponent = 0;
    uint least = EXPONENT_BITS(-60);
#if OUTPUT_BITS == 32
    if (largest < EXPONENT_BITS(40)) {
        factor = 1152921504606846976.0; // 2^60
        exponent = -60;
        least = EXPONENT_BITS(-126);
    } else if (largest >= EXPONENT_BITS(100)) {
        factor = 9.094947017729282379150390625e-13; // 2^-40
        exponent = 40;
        least = EXPONENT_BITS(-20);
    }
#endif
    FOR_EACH_ADDEND(number, ADD)
    if (IN_PARTS) {
        STATE(2u) = floatBitsToUint(sum.high);
        STATE(3u) = floatBitsToUint(sum.low);
    }
    if (DIVISOR > 1u) { sum = average_of(sum, DIVISOR); }
#if OUTPUT_BITS == 16
    return float16_from_number(rounded_to_odd(sum));
#else
    return times_power_of_two(floatBitsToUint(sum.high), exponent);
#endif
}

#define OPERATION(number) folded(number)
#include "elementwise/each_offset.glsl"
