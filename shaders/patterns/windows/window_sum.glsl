// Sums over windows, and averages and norms made of them. All elements are taken as float32, which holds every float16.
//
// The quick way is for elements that are 0 or in a middle range, where nothing overflows and no intermediate is denormal. Otherwise
// all elements are multiplied by a power of two first, which brings the largest one to 2^SCALED_EXPONENT, and the result
// is multiplied back; what is below 2^LEAST_EXPONENT is left out then, which changes no result by more than 2^-90 of
// the sum of magnitudes.
//
// The operator's file defines before
//   LEAST_EXPONENT, SCALED_EXPONENT, MOST_EXPONENT    the middle range, and where scaled elements lie in it; integers
//   WITH_TERM(sum, x, with)                           the sum with what is added of an element x; with(sum, number) adds a number
//   RESULT_OF(sum, window)                            the result of the sum, in two words
//   HAS_SIGN                                          where infinities of both signs have no sum
//   RESULT_EXPONENT(exponent)                         by which power of two the result of elements times 2^exponent is too large;
//                                                     by default the same
//   SUM_TYPE                                          the data type of the result, where it is not the operator's own: then the file
//                                                     defines pooled itself, by window_sum(window)
//   WINDOW_IS_GIVEN                                   where the file has what is used of window.glsl itself, and one launch takes all taps

#ifndef WINDOW_IS_GIVEN
#include "windows/window.glsl"
#endif
#include "window_sums.glsl"

#ifndef RESULT_EXPONENT
#define RESULT_EXPONENT(exponent) exponent
#endif
#ifndef SUM_TYPE
#define SUM_IS_RESULT
#define SUM_TYPE OUTPUT
#endif

#define NUMBER_OF(type, x) CONCATENATE(NUMBER_OF_, type)(x)
#define NUMBER_OF_float32(x) (x)
#define NUMBER_OF_float16(x) float32_from_float16(x)

#define EXPONENT_BITS(exponent) (uint((exponent) + 127) << 23)

// Rounded once: of float16 to odd first.
#define ROUNDED(type, words) CONCATENATE(ROUNDED_, type)(words)
#define ROUNDED_float32(words) floatBitsToUint(words.high)
#define ROUNDED_float16(words) float16_from_number(rounded_to_odd(words))

#define FEW_TAPS 16u
// Of more taps compilers of GPUs do not write loops out: elements are loaded so many at once before the first is added.
#define MANY_TAPS 64u
#define TAPS_AT_ONCE 16u

#define TAKE(at, number) TAKE_ELEMENT(TAP(at))
// Magnitudes less one: zeros become the largest. float16 has no number outside the middle range.
#define TAKE_ELEMENT(element) \
    { \
        uint x = NUMBER_OF(INPUT, element); \
        uint magnitude = x & MAGNITUDE_F32; \
        largest = max(largest, magnitude); \
        smallest_less_one = min(smallest_less_one, magnitude - 1u); \
        if (TAPS_OF_WINDOW <= FEW_TAPS) { \
            WITH_TERM(sum, uintBitsToFloat(x), with_one_of_few) \
        } else { \
            WITH_TERM(sum, uintBitsToFloat(x), with_number) \
        } \
    }

#define TAKE_SCALED(at, number) \
    { \
        uint x = times_power_of_two(NUMBER_OF(INPUT, TAP(at)), exponent); \
        x = (x & MAGNITUDE_F32) < EXPONENT_BITS(LEAST_EXPONENT) ? 0u : x; \
        WITH_TERM(sum, uintBitsToFloat(x), with_number) \
    }

#define IS_NAN 1u
#define IS_INFINITE 2u
#define IS_NEGATIVE_INFINITE 4u
#define TAKE_SPECIAL(at, number) \
    { \
        uint x = NUMBER_OF(INPUT, TAP(at)); \
        found |= (x & MAGNITUDE_F32) > INFINITY_F32 ? IS_NAN : 0u; \
        found |= (x & MAGNITUDE_F32) == INFINITY_F32 ? (int(x) < 0 ? IS_NEGATIVE_INFINITE : IS_INFINITE) : 0u; \
    }

#define TAKE_AND_LOOK(at, number) \
    { \
        TAKE(at, number) \
        TAKE_SPECIAL(at, number) \
    }

#define INFINITY(type) CONCATENATE(INFINITY_, type)
#define INFINITY_float32 INFINITY_F32
#define INFINITY_float16 INFINITY_F16
#define NAN(type) CONCATENATE(NAN_, type)
#define NAN_float32 NAN_F32
#define NAN_float16 NAN_F16
#define SIGN(type) CONCATENATE(SIGN_, type)
#define SIGN_float32 SIGN_F32
#define SIGN_float16 0x8000u

// The result of a window that has an infinity or a NaN in it, by what was found.
uint special_result(uint found) {
#ifdef HAS_SIGN
    if (found == IS_NEGATIVE_INFINITE) { return SIGN(SUM_TYPE) | INFINITY(SUM_TYPE); }
    return found == IS_INFINITE ? INFINITY(SUM_TYPE) : NAN(SUM_TYPE);
#else
    return (found & IS_NAN) == 0u ? INFINITY(SUM_TYPE) : NAN(SUM_TYPE);
#endif
}

// What elements are scaled by where the largest magnitude is this one, and whether any is left then.
int scaling_exponent(uint largest) { return SCALED_EXPONENT + 127 - int(largest >> 23); }
bool is_scaled_sum_zero(uint largest) { return largest < SMALLEST_NORMAL_F32; }

// Whether a window of finite elements has some outside the middle range.
bool needs_scaling(uint largest, uint smallest_less_one) {
#if INPUT_BITS == 32
    return largest >= EXPONENT_BITS(MOST_EXPONENT) || smallest_less_one < EXPONENT_BITS(LEAST_EXPONENT) - 1u;
#else
    return false;
#endif
}

uint scaled_result(Window window, Double sum, int exponent) {
    Double result = RESULT_OF(sum, window);
    return times_power_of_two(floatBitsToUint(result.high), -RESULT_EXPONENT(exponent));
}

uint quick_result(Window window, Double sum) {
    if (TAPS_OF_WINDOW <= FEW_TAPS) { sum = two_sum(sum.high, sum.low); }
    Double result = RESULT_OF(sum, window);
    return ROUNDED(SUM_TYPE, result);
}

#ifndef WINDOW_IS_GIVEN
// The element of the input that a tap of a whole window is, in the order of FOR_EACH_TAP.
uint offset_of_tap(Window window, uint tap) {
    uint row = tap / TAPS_WIDTH;
    return window.at + tap % TAPS_WIDTH * TAP_STEP_WIDTH + row % TAPS_HEIGHT * TAP_STEP_HEIGHT + row / TAPS_HEIGHT * TAP_STEP_DEPTH;
}

// The sum where several launches take the taps: in round 0 all as they are; in round 1 scaled, where that is needed.
uint window_sum_in_parts(Window window) {
    uint largest = 0u;
    uint smallest_less_one = 0xffffffffu;
    uint found = 0u;
    Double sum = Double(0.0, 0.0);
    if (has_state()) {
        sum = Double(uintBitsToFloat(STATE(0u)), uintBitsToFloat(STATE(1u)));
        largest = STATE(2u);
        smallest_less_one = STATE(3u);
        found = STATE(4u);
    }
    if (parameters.round == 0u) {
        FOR_EACH_TAP_IN_PART(window, TAKE_AND_LOOK)
        STATE(2u) = largest;
        STATE(3u) = smallest_less_one;
        STATE(4u) = found;
    }
    bool is_scaled = largest < INFINITY_F32 && needs_scaling(largest, smallest_less_one);
    int exponent = scaling_exponent(largest);
    if (parameters.round == 1u && is_scaled) {
        if (parameters.first_tap == 0u) { sum = Double(0.0, 0.0); }
        if (!is_scaled_sum_zero(largest)) {
            FOR_EACH_TAP_IN_PART(window, TAKE_SCALED)
        }
    }
    STATE(0u) = floatBitsToUint(sum.high);
    STATE(1u) = floatBitsToUint(sum.low);
    if (largest >= INFINITY_F32) { return special_result(found); }
    return is_scaled ? scaled_result(window, sum, exponent) : quick_result(window, sum);
}
#endif

uint window_sum(Window window) {
#ifndef WINDOW_IS_GIVEN
    if (IN_PARTS) { return window_sum_in_parts(window); }
#endif
    uint largest = 0u;
    uint smallest_less_one = 0xffffffffu;
    Double sum = Double(0.0, 0.0);
#ifndef WINDOW_IS_GIVEN
    if (!ON_PROCESSOR && TAPS_OF_WINDOW > MANY_TAPS && is_whole(window)) {
        for (uint first = 0u; first < TAPS_OF_WINDOW; first += TAPS_AT_ONCE) {
            VALUE(INPUT) elements[TAPS_AT_ONCE];
            [[unroll]] for (uint i = 0u; i < TAPS_AT_ONCE; ++i) {
                elements[i] = TAP(offset_of_tap(window, min(first + i, TAPS_OF_WINDOW - 1u)));
            }
            [[unroll]] for (uint i = 0u; i < TAPS_AT_ONCE; ++i) {
                if (first + i < TAPS_OF_WINDOW) {
                    TAKE_ELEMENT(elements[i])
                }
            }
        }
    } else
#endif
        FOR_EACH_TAP(window, TAKE)
    if (largest >= INFINITY_F32) {
        uint found = 0u;
        FOR_EACH_TAP_SLOWLY(window, TAKE_SPECIAL)
        return special_result(found);
    }
    if (needs_scaling(largest, smallest_less_one)) {
        int exponent = scaling_exponent(largest);
        sum = Double(0.0, 0.0);
        if (!is_scaled_sum_zero(largest)) {
            FOR_EACH_TAP_SLOWLY(window, TAKE_SCALED)
        }
        return scaled_result(window, sum, exponent);
    }
    return quick_result(window, sum);
}

#ifdef SUM_IS_RESULT
VALUE(OUTPUT) pooled(Window window, out uint index) {
    index = 0u;
    return window_sum(window);
}
#endif
