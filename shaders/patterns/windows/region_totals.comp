// ROI_ALIGN_GRAD, OutputROIGradient: the sums of region_slopes.comp added up, part by part, times SpatialScale, and divided by the samples
// of an output where these were averaged.
//
// The compile script passes INPUT, INPUT_BITS and IS_AVERAGE.

#include "datatypes.glsl"
#include "any_sums.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_sums; // where operands begin in their buffers, in words
    uint base_tables, base_output, work_items;
    uint first_region; // of this launch
    uint parts;        // of a region
    uint entries;      // of a region in the table, beside its head
    uint scale_x;      // the bits of float32
    uint scale_y;
    uint region_stride; // elements from one to the next
    uint member_stride;
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, sums)
BUFFER(1, tables)
BUFFER(2, output)

#define WORDS_OF_PART 32u
#define WORD(word) uintBitsToFloat(words_sums[at + word])
TermSum sum_at(uint at) {
    return TermSum(Double(WORD(0u), WORD(1u)), Double(WORD(2u), WORD(3u)), Double(WORD(4u), WORD(5u)), words_sums[at + 6u]);
}

uint result_of(TermSum sum, uint scale, uvec4 head) {
    uint sign = scale & SIGN_F32;
    if (is_special_sum(sum.flags)) {
        uint special = special_sum_of_terms(sum.flags);
        bool is_nan = (scale & MAGNITUDE_F32) == 0u || (special & MAGNITUDE_F32) > INFINITY_F32;
#if INPUT_BITS == 32
        return is_nan ? NAN_F32 : special ^ sign;
#else
        return is_nan ? NAN_F16 : float16_from_float32(special ^ sign);
#endif
    }
    int exponent;
    Double total = sum_of_terms(sum, 1, exponent);
    if (is_zero_number(total.high) || (scale & MAGNITUDE_F32) == 0u) { return 0u; }
    exponent += int((scale & MAGNITUDE_F32) >> 23) - 127;
    total = multiple_of(uintBitsToFloat(sign | ONE_F32 | (scale & 0x7fffffu)), total);
#if IS_AVERAGE
    total = quotient(total, two_product(float(int(head.y)), float(int(head.z))));
#endif
    int own = int((floatBitsToUint(total.high) >> 23) & 0xffu) - 127;
    return FORM(result, INPUT)(scaled_double(total, -own), exponent + own);
}

void main() {
    WORK_ITEM(item)
    uint member = item & 3u;
    uint at = BASE_WORD(sums) + (item >> 2u) * parameters.parts * WORDS_OF_PART + member * 8u;
    TermSum sum = sum_at(at);
    for (uint part = 1u; part < parameters.parts; ++part) {
        sum = joined_sums(sum, sum_at(at + part * WORDS_OF_PART));
    }
    uint region = parameters.first_region + (item >> 2u);
    uvec4 head = fours_tables[BASE_WORD(tables) / 4u + region * (1u + parameters.entries)];
    uint result = result_of(sum, (member & 1u) == 0u ? parameters.scale_x : parameters.scale_y, head);
    uint location = region * parameters.region_stride + member * parameters.member_stride;
    STORE(INPUT_BITS, words_output, BASE(INPUT_BITS, output) + location, result);
}
