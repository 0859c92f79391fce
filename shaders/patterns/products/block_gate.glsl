// A product of a row and a column, and what the same row gives with another column of weights as its gate: swish(gate) * product, each
// step rounded as the operators round it (SwiGLU: Shazeer, 2020). Columns number 0 of an invocation are the gate's, numbers 1 the others.
#ifndef BLOCK_GATE_GLSL
#define BLOCK_GATE_GLSL

#include "sigmoid.glsl"

BUFFER(5, packed_up)
BUFFER(6, scale_up)
BUFFER(7, zero_up)

uint scale_up_at(uint index) { return LOAD(OPERAND, words_scale_up, BASE(OPERAND_BITS, scale_up) + index); }
uint zero_up_at(uint index)
{
    if (ZERO_KIND == ZERO_IS_PACKED) {
        return integer_of(words_zero_up[BASE_WORD(zero_up) + index / uint(WORD_TERMS)], index);
    }
    if (ZERO_KIND == ZERO_IS_FLOAT) {
        return LOAD(OPERAND, words_zero_up, BASE(OPERAND_BITS, zero_up) + index);
    }
    return ZERO_NUMBER;
}

uint weight_up_at(uint column, uint term)
{
    uint index = column * PACKED_COLUMN + term * PACKED_TERM;
    uint integer = integer_of(words_packed_up[BASE_WORD(packed_up) + index / uint(WORD_TERMS)], index);
    return weight_of(integer, zero_up_at(zero_index(column, term)), scale_up_at(scale_index(column, term)));
}

// With 1 as the scale of the sigmoid's operand.
uint gated(uint gate, uint result) { return FORM(multiply, OPERAND)(FORM(swish, OPERAND)(gate, ONE_F32, ONE_F32), result); }

#endif
