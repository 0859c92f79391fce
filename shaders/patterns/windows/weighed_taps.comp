// WEIGHED_TAPS: sums of up to four weighed elements along an axis, each with the bits of ELEMENT_WISE_MULTIPLY and of REDUCE's sum. An
// invocation has a word of the output.
//
// The compile script passes INPUT, OUTPUT (float32 or float16), INPUT_BITS and OUTPUT_BITS.
#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_input; // where operands begin in their buffers, in words
    uint base_index, base_weight, base_output;
    uint work_items; // words of the output
    uint elements;   // of the output
    uint source_places, places; // along the axis, of the input and of the output
    uint inner;      // elements behind one another along the axes behind it
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, input)
BUFFER(1, index)
BUFFER(2, weight)
BUFFER(3, output)

layout(constant_id = 2) const uint TAPS = 1u;
layout(constant_id = 3) const uint GROUP = 1u; // products that are added at once

#include "arithmetic.glsl"
#include "term_sums.glsl"

#define MOST_TAPS 4u
#define WIDE(type, x) CONCATENATE(WIDE_, type)(x)
#define WIDE_float32(x) (x)
#define WIDE_float16(x) float32_from_float16(x)
#define NARROW(type, x) CONCATENATE(NARROW_, type)(x)
#define NARROW_float32(x) (x)
#define NARROW_float16(x) float16_from_float32(x)

#define TERM(base) (base)
ADD_SLOW_PATH_TERM(add_on_slow_path, TERM, LEAST_ORDINARY_TERM, LEAST_LARGE_TERM)

// REDUCE's sum of a row of these; behind the last one there are zeros.
uint sum_of(uvec4 terms) {
    uvec4 magnitudes = terms & MAGNITUDE_F32;
    uvec4 less_one = magnitudes - 1u; // of zeros the greatest
    uint least = min(min(less_one.x, less_one.y), min(less_one.z, less_one.w));
    uint greatest = max(max(magnitudes.x, magnitudes.y), max(magnitudes.z, magnitudes.w));
    if (least >= LEAST_ORDINARY_TERM - 1u && greatest < LEAST_LARGE_TERM) {
        Double sum = sum_of_four_numbers(uintBitsToFloat(terms));
        precise float result = sum.high + sum.low;
        return is_zero_number(result) ? 0u : floatBitsToUint(result);
    }
    TermSum state = EMPTY_SUM;
    for (uint i = 0u; i < MOST_TAPS; ++i) {
        add_on_slow_path(state, Double(uintBitsToFloat(terms[i]), 0.0));
    }
    if (is_special_sum(state.flags)) { return special_sum_of_terms(state.flags); }
    int exponent;
    Double total = sum_of_terms(state, 1, exponent);
    return is_zero_number(total.high) ? 0u : result_times_power(total.high, exponent);
}

uint weighed(uint element) {
    uint line = element / parameters.inner;
    uint outer = line / parameters.places;
    uint place = line - outer * parameters.places;
    uint first = outer * parameters.source_places * parameters.inner + (element - line * parameters.inner) + BASE(INPUT_BITS, input);
    uvec4 products = uvec4(0u);
    for (uint tap = 0u; tap < MOST_TAPS; ++tap) {
        if (tap < TAPS) {
            uint at = place * TAPS + tap;
            uint x = LOAD(INPUT, words_input, first + words_index[BASE_WORD(index) + at] * parameters.inner);
            products[tap] = multiply_f32(WIDE(INPUT, x), words_weight[BASE_WORD(weight) + at]);
        }
    }
    uint total = 0u;
    for (uint beginning = 0u; beginning < TAPS; beginning += GROUP) {
        uvec4 group = uvec4(0u);
        for (uint tap = 0u; tap < MOST_TAPS; ++tap) {
            if (tap < GROUP && beginning + tap < TAPS) { group[tap] = products[beginning + tap]; }
        }
        uint sum = sum_of(group);
        total = beginning == 0u ? sum : add_f32(total, sum);
    }
    return NARROW(OUTPUT, total);
}

void main() {
    WORK_ITEM(item)
#if OUTPUT_BITS == 16
    uint low = weighed(2u * item);
    uint high = 2u * item + 1u < parameters.elements ? weighed(2u * item + 1u) : 0u;
    uint word = low | high << 16u;
#else
    uint word = weighed(item);
#endif
    words_output[BASE_WORD(output) + item] = word;
}
