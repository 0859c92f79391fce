// Products of rows with weights of block_weights.glsl that lie along the terms: what kernels have in common. A column's terms are whole
// words, and a block is so many of them.
//
#ifndef BLOCK_PRODUCTS_GLSL
#define BLOCK_PRODUCTS_GLSL
#extension GL_EXT_control_flow_attributes : enable

#include "arithmetic.glsl"
#include "comparison.glsl"
#include "datatypes.glsl"

#define LANES 4
#define CONVOLUTION 0

layout(push_constant) uniform Parameters {
    uint base_left; // where operands begin in their buffers, in words
    uint base_packed;
    uint base_scale;
    uint base_zero;
    uint base_addend;
#ifdef IS_GATED
    uint base_packed_up;
    uint base_scale_up;
    uint base_zero_up;
#endif
#ifdef HAS_PARTS
    uint base_parts;
#endif
    uint base_output;
    uint work_items; // work groups
    uint rows;
    uint columns;
    uint terms;
    uint row_tiles;
    uint column_tiles;
    // Strides in elements.
    uint left_row;
    uint left_term;
    uint addend_row;
    uint addend_column;
    uint output_row;
    uint output_column;
    uint alpha;
    uint beta;
} parameters;

#include "buffers.glsl"

// Where there is no zero or addend, something else is bound in its place, and not read.
BUFFER(0, left)
BUFFER(1, packed)
BUFFER(2, scale)
BUFFER(3, zero)
BUFFER(4, addend)
#ifdef HAS_PARTS // sums of segments
#ifdef IS_GATED
BUFFER(8, parts)
BUFFER(9, output)
#else
BUFFER(5, parts)
BUFFER(6, output)
#endif
#elif defined(IS_GATED)
BUFFER(8, output)
#else
BUFFER(5, output)
#endif

#include "products/block_weights.glsl"
#ifdef IS_GATED
#include "products/block_gate.glsl"
#define IS_UP(number) ((number) % 2u == 1u)
#define SCALE_AT(number, index) (IS_UP(number) ? scale_up_at(index) : scale_at(index))
#define ZERO_AT(number, index) (IS_UP(number) ? zero_up_at(index) : zero_at(index))
#define WEIGHT_AT(number, column, term) (IS_UP(number) ? weight_up_at(column, term) : weight_at(column, term))
#define WEIGHT_WORD(number, word) (IS_UP(number) ? words_packed_up[BASE_WORD(packed_up) + (word)] : words_packed[BASE_WORD(packed) + (word)])
#else
#define SCALE_AT(number, index) scale_at(index)
#define ZERO_AT(number, index) zero_at(index)
#define WEIGHT_AT(number, column, term) weight_at(column, term)
#define WEIGHT_WORD(number, word) words_packed[BASE_WORD(packed) + (word)]
#endif
#include "float16_rounding.glsl"
#include "products/matrix_terms.glsl"

layout(constant_id = 15) const bool HAS_ADDEND = false;
layout(constant_id = 16) const bool APPLIES_RELU = false;
// Whether terms 4n to 4n + 3 of a row can be loaded at once.
layout(constant_id = 17) const bool LEFT_HAS_VECTORS = false;
// Whether results of columns 2n and 2n + 1 share a word that holds nothing else.
layout(constant_id = 18) const bool OUTPUT_HAS_PAIRS = false;
// How many terms have a scale and a zero in common: a multiple of WORD_TERMS.
layout(constant_id = 19) const uint BLOCK = 1u;

#define SEGMENT 1024u
#define SEGMENTS ((parameters.terms + (SEGMENT - 1u)) / SEGMENT)
#if defined(HAS_PARTS) || defined(MAKES_PARTS)
// Terms of the sums that kernels leave for block_totals.glsl: a segment, but for those who permit a device its own arithmetic.
layout(constant_id = 25) const uint PART_TERMS = SEGMENT;
#endif

uint left_index(uint row, uint term)
{
    return BASE(OPERAND_BITS, left) + row * parameters.left_row + term * parameters.left_term;
}

// Four terms of a row as they are loaded, with nothing computed of them: that would wait for memory. Those from `end` on are zeros.
uvec4 loaded_four(uint row, uint term, uint end)
{
    uvec4 loaded = uvec4(0u);
    if (LEFT_HAS_VECTORS) {
        if (term < end) {
#if OPERAND_BITS == 16
            loaded.xy = pairs_left[left_index(row, term) >> 2u];
#else
            loaded = fours_left[left_index(row, term) >> 2u];
#endif
        }
        return loaded;
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        if (term + i < end) {
            loaded[i] = LOAD(OPERAND, words_left, left_index(row, term + i));
        }
    }
    return loaded;
}

// The same as bits of float32.
uvec4 four_of(uvec4 loaded)
{
#if OPERAND_BITS == 16
    if (LEFT_HAS_VECTORS) {
        return uvec4(float32_from_float16_pair(loaded.x), float32_from_float16_pair(loaded.y));
    }
#endif
    return uvec4(operand(loaded.x), operand(loaded.y), operand(loaded.z), operand(loaded.w));
}
uvec4 left_four(uint row, uint term, uint end) { return four_of(loaded_four(row, term, end)); }

// What of a block's scale and zero the weights of a word are made with: bits of floats without denormals; where weights are made by
// arithmetic of FLOAT16, the scale is a pair of its own bits.
#if OPERAND_BITS == 16
#define NUMBER_OF(bits) float32_from_float16(bits)
#else
#define NUMBER_OF(bits) operand(bits)
#endif
#ifdef HALF_ARITHMETIC
#include "products/block_halves.glsl"
#define SCALE_OF(bits) (MULTIPLIES_HALVES ? (bits) * 0x00010001u : NUMBER_OF(bits))
#else
#define SCALE_OF NUMBER_OF
#endif
uvec2 entry_of(uint scale, uint zero)
{
    if (ZERO_KIND == ZERO_IS_FACTOR) {
        precise float whole = uintBitsToFloat(NUMBER_OF(scale)) * float_of_short(int(zero));
        return uvec2(floatBitsToUint(whole), floatBitsToUint(float_of_short(int(ZERO_NUMBER))));
    }
    return uvec2(SCALE_OF(scale), ZERO_KIND == ZERO_IS_FLOAT ? NUMBER_OF(zero) : floatBitsToUint(float_of_short(int(zero))));
}

// There are never as many work groups: see float16_rounding.glsl.
#define HIDDEN_ZERO (parameters.work_items >> 31u)

// The integers of a word as floats with something added, which is a power of two: their bits stand where a float of that exponent has its
// ones. Signed ones have half of their range added before.
#define FLIPPED(word) (WEIGHTS_ARE_SIGNED ? (word) ^ (WEIGHT_BITS == 8 ? 0x80808080u : WEIGHT_BITS == 4 ? 0x88888888u : 0xaaaaaaaau) : (word))
#define HALF_RANGE (WEIGHTS_ARE_SIGNED ? float(1 << (WEIGHT_BITS - 1)) : 0.0)
#define BIASED_12(word, high) uintBitsToFloat(((word) & (WEIGHT_MASK << 12u)) | exponent_11_ | (high)) // 2^11 + integer
#define BIASED_16(word, high) uintBitsToFloat(((word) & (WEIGHT_MASK << 16u)) | exponent_7_ | (high)) // 2^7 + integer
// The bits of term i in the second plane, which are the next ones above the others where these begin at a bit.
#define HIGH_BITS_AT(high, i, bit) (HIGH_BITS == 0u ? 0u : ((high) >> (i) * HIGH_BITS & HIGH_MASK) << ((bit) + uint(WEIGHT_BITS)))
// The bits of such powers of two. The compiler does not know them: one instruction has two masks where one of them lies in a register.
#define FIND_EXPONENTS \
    uint exponent_11_ = 0x45000000u | HIDDEN_ZERO; \
    uint exponent_7_ = 0x43000000u | HIDDEN_ZERO;

#if WEIGHT_BITS == 4
#define BIASED_TERMS(word, high, biased) \
    if (TABLE != 0u) { \
        [[unroll]] for (uint i_ = 0u; i_ < 8u; ++i_) { \
            biased[i_] = uintBitsToFloat(number_of((word) >> 4u * i_ & WEIGHT_MASK) << 12u | exponent_11_); \
        } \
    } else { \
        BIASED_FOURS(word, high, biased) \
    }
#define BIASED_FOURS(word, high, biased) \
    biased[0] = BIASED_16((word) << 16u, HIGH_BITS_AT(high, 0u, 16u)); \
    biased[1] = BIASED_12((word) << 8u, HIGH_BITS_AT(high, 1u, 12u)); \
    biased[2] = BIASED_16((word) << 8u, HIGH_BITS_AT(high, 2u, 16u)); \
    biased[3] = BIASED_12(word, HIGH_BITS_AT(high, 3u, 12u)); \
    biased[4] = BIASED_16(word, HIGH_BITS_AT(high, 4u, 16u)); \
    biased[5] = BIASED_12((word) >> 8u, HIGH_BITS_AT(high, 5u, 12u)); \
    biased[6] = BIASED_16((word) >> 8u, HIGH_BITS_AT(high, 6u, 16u)); \
    biased[7] = BIASED_12((word) >> 16u, HIGH_BITS_AT(high, 7u, 12u));
#define IS_BIASED_16(i) (TABLE == 0u && (i) % 2u == 0u)
#elif WEIGHT_BITS == 8
#define BIASED_TERMS(word, high, biased) \
    biased[0] = BIASED_12((word) << 12u, 0u); \
    biased[1] = BIASED_12((word) << 4u, 0u); \
    biased[2] = BIASED_12((word) >> 4u, 0u); \
    biased[3] = BIASED_12((word) >> 12u, 0u);
#define IS_BIASED_16(i) false
#else
#define BIASED_TERMS(word, high, biased) \
    [[unroll]] for (uint i_ = 0u; i_ < 8u; ++i_) { \
        uint moved_ = i_ < 3u ? (word) << (12u - 4u * i_) : (word) >> (4u * i_ - 12u); \
        biased[2u * i_] = BIASED_12(moved_, HIGH_BITS_AT(high, 2u * i_, 12u)); \
        uint second_ = (moved_ & (3u << 14u)) | 0x44000000u; /* 2^9 + integer */ \
        biased[2u * i_ + 1u] = uintBitsToFloat(second_ | HIGH_BITS_AT(high, 2u * i_ + 1u, 14u)); \
    }
#define IS_BIASED_16(i) false
#endif
#if WEIGHT_BITS == 2
#define BIAS(i) ((i) % 2u == 0u ? 2048.0 : 512.0)
#else
#define BIAS(i) (IS_BIASED_16(i) ? 128.0 : 2048.0)
#endif

// A segment's sum by its definition, as in matrix_exact_sum.glsl; `number` says whose column it is (block_gate.glsl).
uint exact_sum(uint row, uint column, uint number, uint first, uint end)
{
    uint sum = 0u;
    for (uint iteration = first; iteration < end; iteration += 8u) {
        for (uint term = iteration; term < min(iteration + 8u, end); ++term) {
            uint a = operand(LOAD(OPERAND, words_left, left_index(row, term)));
            uint b = operand(WEIGHT_AT(number, column, term));
#if OPERAND_BITS == 32
            sum = sum_plus(sum, multiply_f32(a, b));
#else
            sum = floatBitsToUint(exact_product_plus(uintBitsToFloat(a), uintBitsToFloat(b), uintBitsToFloat(sum)));
#endif
        }
    }
    return sum;
}

// The result of a complete sum, as in matrix.glsl.
uint finished(uint sum, uint row, uint column)
{
    uint value = multiply_f32(sum, parameters.alpha);
    if (HAS_ADDEND) {
        uint index = BASE(OPERAND_BITS, addend) + row * parameters.addend_row + column * parameters.addend_column;
        value = add_f32(value, multiply_f32(WIDE(LOAD(OPERAND, words_addend, index)), parameters.beta));
    }
    uint result = NARROW(value);
    return APPLIES_RELU ? FORM(larger, OPERAND)(result, 0u) : result;
}

uint output_index(uint row, uint column)
{
    return BASE(OPERAND_BITS, output) + row * parameters.output_row + column * parameters.output_column;
}

#endif
