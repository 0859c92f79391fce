// Weights of block_weights.glsl as the numbers that they stand for: some columns of them, in lines along the terms or across the columns.
// Each invocation makes eight neighbours of a line.
//
// With groups, block numbers along the terms are looked up, and do not follow from the term.
#extension GL_EXT_control_flow_attributes : enable

#include "arithmetic.glsl"
#include "comparison.glsl"
#include "datatypes.glsl"

#define LANES 4

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_packed; // where operands begin in their buffers, in words
    uint base_scale;
    uint base_zero;
    uint base_groups;
    uint base_output;
    uint work_items; // eights
    uint eights; // of a line
    uint inner; // elements of a line
    uint first_column;
    uint columns; // of all
    uint terms;
    uint output_line; // from line to line
} parameters;

#include "buffers.glsl"

BUFFER(0, packed)
BUFFER(1, scale)
BUFFER(2, zero)
BUFFER(3, groups)
BUFFER(4, output)

#include "products/block_weights.glsl"

layout(constant_id = 15) const bool LINES_ARE_TERMS = true; // a line is a column; else it is a term of all columns
layout(constant_id = 16) const bool HAS_GROUPS = false;
// Whether eight neighbours share a scale and a zero, and lie in words of their own.
layout(constant_id = 17) const bool EIGHTS_SHARE_A_BLOCK = false;
layout(constant_id = 18) const bool EIGHTS_ARE_WORDS = false;
// Whether eights of the output lie at multiples of 16 bytes, and hold nothing else, whatever there is of them.
layout(constant_id = 19) const bool STORES_EIGHTS = false;

uint weight_beside(uint column, uint term)
{
    if (!HAS_GROUPS) {
        return weight_at(column, term);
    }
    uint index = column * PACKED_COLUMN + term * PACKED_TERM;
    uint integer = integer_of(words_packed[BASE_WORD(packed) + index / uint(WORD_TERMS)], index);
    uint block = words_groups[BASE_WORD(groups) + term];
    uint zero = zero_at(column / ZERO_COLUMN_BLOCK * ZERO_COLUMN + block * ZERO_TERM);
    return weight_of(number_of(integer), zero, scale_at(column / SCALE_COLUMN_BLOCK * SCALE_COLUMN + block * SCALE_TERM));
}

void main()
{
    uint item = invocation_index();
    if (item >= parameters.work_items) {
        return;
    }
    uint line = item / parameters.eights;
    uint first = item % parameters.eights * 8u;
    uint column = LINES_ARE_TERMS ? parameters.first_column + line : parameters.first_column + first;
    uint term = LINES_ARE_TERMS ? first : line;
    uvec2 next = uvec2(LINES_ARE_TERMS ? 0u : 1u, LINES_ARE_TERMS ? 1u : 0u);
    uint bits[8];
    if (EIGHTS_SHARE_A_BLOCK && EIGHTS_ARE_WORDS) {
        uint index = column * PACKED_COLUMN + term * PACKED_TERM;
        uint zero = zero_at(zero_index(column, term));
        uint scale = scale_at(scale_index(column, term));
        uint minimum = HAS_MINIMA ? scale_minimum(column, term) : 0u;
        uint word = BASE_WORD(packed) + index / uint(WORD_TERMS);
        uint high = 0u;
        if (HIGH_BITS != 0u) {
            high = high_of(words_packed[BASE_WORD(packed) + column * PACKED_COLUMN / uint(WORD_TERMS) + high_word(term)], term);
        }
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            uint integer = integer_of(words_packed[word + i / uint(WORD_TERMS)], index + i);
            integer |= (high >> i * HIGH_BITS & HIGH_MASK) << uint(WEIGHT_BITS);
            bits[i] = weight_of(number_of(integer), zero, scale);
            if (HAS_MINIMA) { bits[i] = LESS(bits[i], minimum); }
        }
    } else {
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            uvec2 at = min(uvec2(column, term) + i * next, uvec2(parameters.columns, parameters.terms) - 1u);
            bits[i] = weight_beside(at.x, at.y);
        }
    }
    uint position = BASE(OPERAND_BITS, output) + line * parameters.output_line + first;
    if (STORES_EIGHTS) {
#if OPERAND_BITS == 16
        fours_output[position >> 3u] =
            uvec4(bits[0], bits[2], bits[4], bits[6]) | uvec4(bits[1], bits[3], bits[5], bits[7]) << 16u;
#else
        fours_output[position >> 2u] = uvec4(bits[0], bits[1], bits[2], bits[3]);
        fours_output[(position >> 2u) + 1u] = uvec4(bits[4], bits[5], bits[6], bits[7]);
#endif
    } else {
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            if (first + i < parameters.inner) {
                STORE(OPERAND_BITS, words_output, position + i, bits[i]);
            }
        }
    }
}
