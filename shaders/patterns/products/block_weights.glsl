// Weights that lie in memory as integers of few bits, with a scale and something that stands for zero for each block of neighbours, and
// are read as such by whatever computes with them.
//
//     weight(column, term) = (integer - zero) * scale, rounded as DEQUANTIZE rounds it
//
// Zeros are integers like the weights, or floats of the scale's type: then the difference is rounded to float32, and the product is, and
// is rounded to float16 where that is the type. There may be none: then a number stands for all.
//
// Included behind the parameters, by files that define BUFFERs `packed`, `scale` and `zero`. The compile script passes WEIGHT_BITS (2, 4
// or 8), OPERAND (float32 or float16) and OPERAND_BITS.
#ifndef BLOCK_WEIGHTS_GLSL
#define BLOCK_WEIGHTS_GLSL

#include "quantization.glsl"

#define WORD_TERMS (32 / WEIGHT_BITS)
#define WEIGHT_MASK ((1u << WEIGHT_BITS) - 1u)

#define ZERO_IS_NUMBER 0u // the same one for all
#define ZERO_IS_PACKED 1u
#define ZERO_IS_FLOAT 2u
layout(constant_id = 2) const uint ZERO_KIND = ZERO_IS_NUMBER;
layout(constant_id = 3) const uint ZERO_NUMBER = 0u;
layout(constant_id = 4) const bool WEIGHTS_ARE_SIGNED = false;
// Steps along terms and columns, in elements; of scales and zeros from block to block, whose lengths stand before.
layout(constant_id = 5) const uint PACKED_TERM = 1u;
layout(constant_id = 6) const uint PACKED_COLUMN = 1u;
layout(constant_id = 7) const uint SCALE_TERM_BLOCK = 1u;
layout(constant_id = 8) const uint SCALE_TERM = 0u;
layout(constant_id = 9) const uint SCALE_COLUMN_BLOCK = 1u;
layout(constant_id = 10) const uint SCALE_COLUMN = 0u;
layout(constant_id = 11) const uint ZERO_TERM_BLOCK = 1u;
layout(constant_id = 12) const uint ZERO_TERM = 0u;
layout(constant_id = 13) const uint ZERO_COLUMN_BLOCK = 1u;
layout(constant_id = 14) const uint ZERO_COLUMN = 0u;

// An integer of a word, by its index: the index's lowest bits count.
uint integer_of(uint word, uint index)
{
    uint position = index % uint(WORD_TERMS) * uint(WEIGHT_BITS);
    uint value = (word >> position) & WEIGHT_MASK;
    return WEIGHTS_ARE_SIGNED ? uint(int(value << (32u - WEIGHT_BITS)) >> (32 - WEIGHT_BITS)) : value;
}

uint scale_index(uint column, uint term)
{
    return column / SCALE_COLUMN_BLOCK * SCALE_COLUMN + term / SCALE_TERM_BLOCK * SCALE_TERM;
}
uint zero_index(uint column, uint term)
{
    return column / ZERO_COLUMN_BLOCK * ZERO_COLUMN + term / ZERO_TERM_BLOCK * ZERO_TERM;
}

// The bits of a scale, and of a zero: of an integer, or of a float.
uint scale_at(uint index) { return LOAD(OPERAND, words_scale, BASE(OPERAND_BITS, scale) + index); }
uint zero_at(uint index)
{
    if (ZERO_KIND == ZERO_IS_PACKED) {
        return integer_of(words_zero[BASE_WORD(zero) + index / uint(WORD_TERMS)], index);
    }
    if (ZERO_KIND == ZERO_IS_FLOAT) {
        return LOAD(OPERAND, words_zero, BASE(OPERAND_BITS, zero) + index);
    }
    return ZERO_NUMBER;
}

#if OPERAND_BITS == 16
#define WIDE(bits) float32_from_float16(bits)
#define NARROW(bits) float16_from_float32(bits)
#else
#define WIDE(bits) (bits)
#define NARROW(bits) (bits)
#endif

// The bits of a weight, by its definition. About 30 operations.
uint weight_of(uint integer, uint zero, uint scale)
{
    if (ZERO_KIND == ZERO_IS_FLOAT) {
        uint difference = subtract_f32(floatBitsToUint(float_of_short(int(integer))), WIDE(zero));
        return NARROW(multiply_f32(difference, WIDE(scale)));
    }
    return FORM(dequantized_short, OPERAND)(integer, zero, scale);
}

uint weight_at(uint column, uint term)
{
    uint index = column * PACKED_COLUMN + term * PACKED_TERM;
    uint integer = integer_of(words_packed[BASE_WORD(packed) + index / uint(WORD_TERMS)], index);
    return weight_of(integer, zero_at(zero_index(column, term)), scale_at(scale_index(column, term)));
}

#endif
