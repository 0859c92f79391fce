// Weights that lie in memory as integers of few bits, with a scale and something that stands for zero for each block of neighbours, and
// are read as such by whatever computes with them.
//
//     weight(column, term) = (integer - zero) * scale, rounded as DEQUANTIZE rounds it
//
// Zeros are integers like the weights, or floats of the scale's type: then the difference is rounded to float32, and the product is, and
// is rounded to float16 where that is the type. There may be none: then a number stands for all. In their place may lie factors: integers of
// 4 bits, or signed ones of 8, by which scales of larger blocks are multiplied. Then the scale is rounded to float32, and so on as above.
// With minima, of float32, the block's one is taken from that, and the difference rounded.
//
// Integers of 3, 5 and 6 bits lie in two planes of each column: the lowest 2 or 4 bits of all of them, and from HIGH_PLANE on the others.
//
// Included behind the parameters, by files that define BUFFERs `packed`, `scale` and `zero`. The compile script passes WEIGHT_BITS (2, 4
// or 8: those of the first plane), OPERAND (float32 or float16) and OPERAND_BITS.

#include "quantization.glsl"

#define WORD_TERMS (32 / WEIGHT_BITS)
#define WEIGHT_MASK ((1u << WEIGHT_BITS) - 1u)

#define ZERO_IS_NUMBER 0u // the same one for all
#define ZERO_IS_PACKED 1u
#define ZERO_IS_FLOAT 2u
#define ZERO_IS_FACTOR 3u // of the scale; what stands for zero is a number
// Whether a product that is rounded to float32 is rounded again to the operand's type.
#define ROUNDS_PRODUCTS (ZERO_KIND == ZERO_IS_FLOAT || ZERO_KIND == ZERO_IS_FACTOR)
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
layout(constant_id = 26) const uint FACTOR_BITS = 8u;
#if OPERAND_BITS == 16
#define SCALES_ARE_HALVES true
#define SCALES_ARE_EXPONENTS false
#else
layout(constant_id = 27) const bool SCALES_ARE_HALVES = false;
layout(constant_id = 36) const bool SCALES_ARE_EXPONENTS = false; // of powers of two, in bytes, with 128 added
#endif
// Whether behind each scale and each factor, of FLOAT16 and of integers, lies that of the block's minimum: what is taken from its weights.
#if OPERAND_BITS == 16
#define HAS_MINIMA false
#else
layout(constant_id = 37) const bool HAS_MINIMA = false;
#endif

layout(constant_id = 29) const uint HIGH_BITS = 0u; // of the second plane; without one 0
layout(constant_id = 34) const uint HIGH_PLANE = 0u; // words before it, from a column's first one
#define HIGH_MASK ((1u << HIGH_BITS) - 1u)

// What integers of 4 bits stand for: 0 themselves, 1 twice a number of E2M1, 2 one of ggml's IQ4_NL, with 128 added.
#if WEIGHT_BITS == 4
layout(constant_id = 35) const uint TABLE = 0u;
uint number_of(uint integer)
{
    if (TABLE == 0u) {
        return integer;
    }
    // Not by one expression: of constants that are specialized it would be one itself, which has four parts.
    uvec4 words = uvec4(0x3f2d1801u, 0x766a5d4fu, 0xa6998d81u, 0xf1d9c5b5u);
    if (TABLE == 1u) { words = uvec4(0x83828180u, 0x8c888684u, 0x7d7e7f80u, 0x74787a7cu); }
    uvec2 half_ = (integer & 8u) != 0u ? words.zw : words.xy;
    return ((integer & 4u) != 0u ? half_.y : half_.x) >> (integer & 3u) * 8u & 0xffu;
}
#else
#define TABLE 0u
#define number_of(integer) (integer)
#endif

// The word of the second plane that a term has its bits in, from a column's first one; and the bits of it and of its next neighbours.
uint high_word(uint term) { return HIGH_PLANE + (term * HIGH_BITS >> 5u); }
uint high_of(uint word, uint term) { return HIGH_BITS == 0u ? 0u : word >> (term * HIGH_BITS & 31u); }

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

// The word that holds a scale or a zero, by its index from where these begin; and its bits, out of that word: of an integer, or of a float of
// the operand's type. Kernels that load far ahead keep words, since what is computed of them waits for memory.
uint scale_word(uint index) { return SCALES_ARE_EXPONENTS ? index >> 2u : SCALES_ARE_HALVES && !HAS_MINIMA ? index >> 1u : index; }
uint scale_of(uint word, uint index)
{
#if OPERAND_BITS == 16
    return word >> (index & 1u) * 16u & 0xffffu;
#else
    if (SCALES_ARE_EXPONENTS) {
        return max(word >> (index & 3u) * 8u & 0xffu, 1u) - 1u << 23u; // none is denormal
    }
    return SCALES_ARE_HALVES ? float32_from_float16(word >> (HAS_MINIMA ? 0u : index & 1u) * 16u & 0xffffu) : word;
#endif
}
// Where a block's factors begin in their word: one, or with minima two.
uint factor_shift(uint index) { return index * (HAS_MINIMA ? 2u * FACTOR_BITS : FACTOR_BITS) & 31u; }
uint factor_of(uint word, uint shift)
{
    uint first = word << (32u - FACTOR_BITS - shift);
    return FACTOR_BITS == 8u ? uint(int(first) >> 24) : first >> 28u;
}
uint zero_word(uint index)
{
    if (ZERO_KIND == ZERO_IS_PACKED) {
        return index / uint(WORD_TERMS);
    }
    if (ZERO_KIND == ZERO_IS_FACTOR) {
        return index / (32u / (HAS_MINIMA ? 2u * FACTOR_BITS : FACTOR_BITS));
    }
    return OPERAND_BITS == 16 ? index >> 1u : index;
}
uint zero_of(uint word, uint index)
{
    if (ZERO_KIND == ZERO_IS_PACKED) {
        return integer_of(word, index);
    }
    if (ZERO_KIND == ZERO_IS_FACTOR) {
        return factor_of(word, factor_shift(index));
    }
    return OPERAND_BITS == 16 ? word >> (index & 1u) * 16u & 0xffffu : word;
}

// What is taken from the weights of a block, by the words that hold its scale and its zero: exact, and never denormal.
uint minimum_of(uint scale, uint zero, uint zero_index)
{
    precise float minimum = uintBitsToFloat(float32_from_float16(scale >> 16u));
    if (ZERO_KIND == ZERO_IS_FACTOR) {
        minimum = minimum * float_of_short(int(factor_of(zero, factor_shift(zero_index) + FACTOR_BITS)));
    }
    return floatBitsToUint(minimum);
}

// The same of buffers: `packed`, `scale` and `zero`, or others.
#define DEFINE_WEIGHTS_OF(packed, scale, zero, weight_function) \
    uint scale##_at(uint index) { return scale_of(words_##scale[BASE_WORD(scale) + scale_word(index)], index); } \
    uint zero##_at(uint index) \
    { \
        return ZERO_KIND == ZERO_IS_NUMBER ? ZERO_NUMBER : zero_of(words_##zero[BASE_WORD(zero) + zero_word(index)], index); \
    } \
    uint scale##_minimum(uint column, uint term) \
    { \
        uint factor = 0u; \
        if (ZERO_KIND == ZERO_IS_FACTOR) { factor = words_##zero[BASE_WORD(zero) + zero_word(zero_index(column, term))]; } \
        return minimum_of(words_##scale[BASE_WORD(scale) + scale_index(column, term)], factor, zero_index(column, term)); \
    } \
    uint packed##_integer(uint column, uint term) \
    { \
        uint index = column * PACKED_COLUMN + term * PACKED_TERM; \
        uint integer = integer_of(words_##packed[BASE_WORD(packed) + index / uint(WORD_TERMS)], index); \
        if (HIGH_BITS != 0u) { \
            uint word = words_##packed[BASE_WORD(packed) + column * PACKED_COLUMN / uint(WORD_TERMS) + high_word(term)]; \
            integer |= (high_of(word, term) & HIGH_MASK) << uint(WEIGHT_BITS); \
        } \
        return number_of(integer); \
    } \
    uint weight_function(uint column, uint term) \
    { \
        uint weight = weight_of( \
            packed##_integer(column, term), zero##_at(zero_index(column, term)), scale##_at(scale_index(column, term))); \
        return HAS_MINIMA ? LESS(weight, scale##_minimum(column, term)) : weight; \
    }

#if OPERAND_BITS == 16
#define WIDE(bits) float32_from_float16(bits)
#define NARROW(bits) float16_from_float32(bits)
#define LESS(weight, minimum) (weight)
#else
#define WIDE(bits) (bits)
#define NARROW(bits) (bits)
#define LESS(weight, minimum) subtract_f32(weight, minimum)
#endif

// The bits of a weight, by its definition. About 30 operations.
uint weight_of(uint integer, uint zero, uint scale)
{
    if (ZERO_KIND == ZERO_IS_FLOAT) {
        uint difference = subtract_f32(floatBitsToUint(float_of_short(int(integer))), WIDE(zero));
        return NARROW(multiply_f32(difference, WIDE(scale)));
    }
    if (ZERO_KIND == ZERO_IS_FACTOR) {
        uint whole = multiply_f32(WIDE(scale), floatBitsToUint(float_of_short(int(zero))));
        return NARROW(multiply_f32(floatBitsToUint(float_of_short(int(integer - ZERO_NUMBER))), whole));
    }
    return FORM(dequantized_short, OPERAND)(integer, zero, scale);
}

DEFINE_WEIGHTS_OF(packed, scale, zero, weight_at)
