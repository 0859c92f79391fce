// Elements of a packed tensor of four axes, A the innermost, as weighted sums of those elements of another that were resampled from them: along
// each axis these are neighbours, and the first one for each element is in a table (begins.comp makes it). An invocation computes a word of
// the output.

#include "datatypes.glsl"
#include "resampling.glsl"

#define LANES 4
layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_input, base_begins, base_output, base_state, count;
    // Of several launches: the addends that this one takes, and how many times all have been taken before.
    uint first, end, round;
} parameters;

#include "buffers.glsl"

BUFFER(0, input)
BUFFER(1, begins)
BUFFER(2, output)
BUFFER(3, state) // what one of several launches hands on to the next: STATE_WORDS for each element of the output

layout(constant_id = 2) const bool IN_PARTS = false;
layout(constant_id = 3) const bool IS_LINEAR = false;
// The bits of the smallest magnitude that makes no addend denormal, nor what is lost when it is added.
layout(constant_id = 4) const uint LEAST_MAGNITUDE = 0u;

// Of each axis: elements of the output and of the input; whether it is resampled (otherwise elements have their own number); the numbers of
// Resampled; where its part of the table begins.
#define GRADIENT_AXIS(axis, first_id) \
    layout(constant_id = first_id) const uint SIZE_##axis = 1u; \
    layout(constant_id = first_id + 1) const uint COUNT_##axis = 1u; \
    layout(constant_id = first_id + 2) const bool IS_RESAMPLED_##axis = false; \
    layout(constant_id = first_id + 3) const uint SCALE_##axis = 0x3f800000u; \
    layout(constant_id = first_id + 4) const uint INVERSE_##axis = 0x3f800000u; \
    layout(constant_id = first_id + 5) const uint INPUT_OFFSET_##axis = 0u; \
    layout(constant_id = first_id + 6) const uint OUTPUT_OFFSET_##axis = 0u; \
    layout(constant_id = first_id + 7) const uint LAST_##axis = 0u; \
    layout(constant_id = first_id + 8) const uint BEGINS_##axis = 0u; \
    float weight_along_##axis(uint at, uint element) { \
        if (!IS_RESAMPLED_##axis || !IS_LINEAR) { return 1.0; } \
        Between between_ = between(location_of(at, Resampled(uintBitsToFloat(SCALE_##axis), uintBitsToFloat(INVERSE_##axis), \
            uintBitsToFloat(INPUT_OFFSET_##axis), uintBitsToFloat(OUTPUT_OFFSET_##axis), uintBitsToFloat(LAST_##axis)))); \
        precise float rest = 1.0 - between_.fraction; \
        return between_.element == element ? rest : between_.fraction; \
    }
GRADIENT_AXIS(A, 5) GRADIENT_AXIS(B, 14) GRADIENT_AXIS(C, 23) GRADIENT_AXIS(D, 32)

// Of the blocks that elements went into, where each had one of its own: block_gradient.comp.
layout(constant_id = 41) const uint BLOCK_ROWS = 1u;

#define BEGIN_AT(axis, element) words_begins[BASE_WORD(begins) + BEGINS_##axis + element]
#define RANGE_ALONG(axis) \
    uint element_##axis = rest_ % SIZE_##axis; \
    rest_ /= SIZE_##axis; \
    uint first_##axis = element_##axis; \
    uint end_##axis = min(element_##axis + 1u, COUNT_##axis); \
    if (IS_RESAMPLED_##axis) { \
        first_##axis = BEGIN_AT(axis, (IS_LINEAR ? max(element_##axis, 1u) - 1u : element_##axis)); \
        end_##axis = BEGIN_AT(axis, element_##axis + 1u); \
    } \
    uint count_##axis = max(end_##axis, first_##axis) - first_##axis;
#define NUMBER_ALONG(axis) \
    uint number_##axis = rest_ % count_##axis; \
    rest_ /= count_##axis;

// The weight of a row, and where it begins in the input.
#define BEGIN_ROW \
    { \
        uint at_D_ = first_D + number_D; \
        uint at_C_ = first_C + number_C; \
        uint at_B_ = first_B + number_B; \
        precise float of_two_ = weight_along_D(at_D_, element_D) * weight_along_C(at_C_, element_C); \
        precise float of_three_ = of_two_ * weight_along_B(at_B_, element_B); \
        row_weight_ = of_three_; \
        row_ = ((at_D_ * COUNT_C + at_C_) * COUNT_B + at_B_) * COUNT_A + first_A; \
    }

// DO(index, weight): for every element of the input that the element `number` of the output has a part in, in logical order (of those that
// this launch takes).
#define FOR_EACH_ADDEND(number, DO) \
    { \
        uint rest_ = number; \
        RANGE_ALONG(A) RANGE_ALONG(B) RANGE_ALONG(C) RANGE_ALONG(D) \
        uint all_ = count_A * count_B * count_C * count_D; \
        uint addend_ = IN_PARTS ? parameters.first : 0u; \
        uint last_ = IN_PARTS ? min(parameters.end, all_) : all_; \
        if (addend_ < last_) { \
            rest_ = addend_; \
            NUMBER_ALONG(A) NUMBER_ALONG(B) NUMBER_ALONG(C) NUMBER_ALONG(D) \
            float row_weight_; \
            uint row_; \
            BEGIN_ROW \
            for (; addend_ < last_; ++addend_) { \
                precise float weight_ = row_weight_ * weight_along_A(first_A + number_A, element_A); \
                if (!is_zero(weight_)) { \
                    DO((row_ + number_A), weight_) \
                } \
                number_A += 1u; \
                if (number_A == count_A) { \
                    number_A = 0u; \
                    number_B += 1u; \
                    if (number_B == count_B) { \
                        number_B = 0u; \
                        number_C += 1u; \
                        if (number_C == count_C) { \
                            number_C = 0u; \
                            number_D += 1u; \
                        } \
                    } \
                    BEGIN_ROW \
                } \
            } \
        } \
    }
