// The sum of all gradients that an element had a part in, each times the element's weight in it. Weights are
// those of the forward operator; a product of several, and its product with the gradient, are rounded to float32 one by one; the
// sum is in two words and rounded once.
//
// Gradients in a middle range are added as they are. Where there are others, all are gone through again: for the exponent of the largest addend,
// and to add them with gradients and weights times powers of two by which the largest comes near 2^60. What is left out is below
// 2^-90 of that one.

#include "windows/resample_gradient.glsl"
#include "window_sums.glsl"

#if OUTPUT_BITS == 16
#define NUMBER_AT(index) float32_from_float16(LOAD(OUTPUT, words_input, BASE(OUTPUT_BITS, input) + index))
#else
#define NUMBER_AT(index) LOAD(OUTPUT, words_input, BASE(OUTPUT_BITS, input) + index)
#endif

#define EXPONENT_BITS(exponent) (uint((exponent) + 127) << 23)
#define MOST_MAGNITUDE EXPONENT_BITS(90)
#define LEAST_ADDEND EXPONENT_BITS(-102) // a multiple of 2^-125: nothing that is lost when it is added is denormal
#define LARGEST_EXPONENT 60
#define WEIGHT_EXPONENT 96
#define WEIGHT_FACTOR 79228162514264337593543950336.0 // 2^96: of the least product of four weights it makes 1

#define ADD_ALL 0u
#define FIND_EXPONENT 1u
#define ADD_SCALED 2u

// What is known of an element's addends.
struct Gradient {
    Double sum;
    uint largest; // magnitudes of the gradients
    uint smallest_less_one;
    uint found;    // 1: NaN, 2: a negative infinity, 4: an infinity
    uint exponent; // of the largest addend, as the sum of two biased ones; 0: all are 0
};

#define NO_GRADIENT Gradient(Double(0.0, 0.0), 0u, 0xffffffffu, 0u, 0u)

float without_least(float addend) { return (floatBitsToUint(addend) & MAGNITUDE_F32) < LEAST_ADDEND ? 0.0 : addend; }

Gradient with_addend(Gradient gradient, uint x, float weight, uint round) {
    uint magnitude = x & MAGNITUDE_F32;
    if (round == ADD_ALL) {
        gradient.largest = max(gradient.largest, magnitude);
        gradient.smallest_less_one = min(gradient.smallest_less_one, magnitude - 1u);
        gradient.found |= magnitude > INFINITY_F32 ? 1u : magnitude == INFINITY_F32 ? (int(x) < 0 ? 2u : 4u) : 0u;
        precise float addend = uintBitsToFloat(x) * weight;
#if OUTPUT_BITS == 16
        addend = without_least(addend);
#endif
        gradient.sum = with_number(gradient.sum, addend);
    } else if (round == FIND_EXPONENT) {
        uint exponent = (magnitude >> 23) + (floatBitsToUint(weight) >> 23);
        gradient.exponent = max(gradient.exponent, magnitude < SMALLEST_NORMAL_F32 ? 0u : exponent);
    } else {
        int moved = LARGEST_EXPONENT + 254 - int(gradient.exponent) - WEIGHT_EXPONENT;
        precise float scaled_weight = weight * WEIGHT_FACTOR;
        precise float addend = uintBitsToFloat(times_power_of_two(x, moved)) * scaled_weight;
        gradient.sum = with_number(gradient.sum, without_least(addend));
    }
    return gradient;
}

// Whether the sum is not what it is taken for.
bool needs_slow_path(Gradient gradient) {
    return gradient.largest >= MOST_MAGNITUDE || gradient.smallest_less_one < LEAST_MAGNITUDE - 1u;
}
bool needs_scaling(Gradient gradient) { return gradient.largest < INFINITY_F32 && needs_slow_path(gradient); }

#if OUTPUT_BITS == 16
#define ROUNDS 1u
#else
#define ROUNDS 3u
#endif

#define STATE_WORDS 6u
#define STATE(word) words_state[BASE_WORD(state) + STATE_WORDS * number + word]

#define TAKE(index, weight) gradient = with_addend(gradient, NUMBER_AT(index), weight, round);

uint gradient_of(uint number) {
    Gradient gradient = NO_GRADIENT;
    if (IN_PARTS && (parameters.first != 0u || parameters.round != 0u)) {
        Double sum = Double(uintBitsToFloat(STATE(0u)), uintBitsToFloat(STATE(1u)));
        gradient = Gradient(sum, STATE(2u), STATE(3u), STATE(4u), STATE(5u));
    }
    uint end_round = IN_PARTS ? parameters.round + 1u : ROUNDS;
    for (uint round = IN_PARTS ? parameters.round : 0u; round < end_round; ++round) {
        if (round != ADD_ALL && !needs_scaling(gradient)) { break; }
        if (round == ADD_SCALED && (!IN_PARTS || parameters.first == 0u)) { gradient.sum = Double(0.0, 0.0); }
        FOR_EACH_ADDEND(number, TAKE)
    }
    if (IN_PARTS) {
        STATE(0u) = floatBitsToUint(gradient.sum.high);
        STATE(1u) = floatBitsToUint(gradient.sum.low);
        STATE(2u) = gradient.largest;
        STATE(3u) = gradient.smallest_less_one;
        STATE(4u) = gradient.found;
        STATE(5u) = gradient.exponent;
    }
    uint found = gradient.found;
    uint infinite = found == 2u ? 0xff800000u : found == 4u ? 0x7f800000u : 0x7fc00000u;
#if OUTPUT_BITS == 16
    return found != 0u ? float16_from_float32(infinite) : float16_from_number(rounded_to_odd(gradient.sum));
#else
    if (found != 0u) { return infinite; }
    int scaled = LARGEST_EXPONENT + 254 - int(gradient.exponent);
    return times_power_of_two(floatBitsToUint(gradient.sum.high), needs_scaling(gradient) ? -scaled : 0);
#endif
}
