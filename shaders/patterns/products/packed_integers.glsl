// Products of FLOAT16 rows by packed weights by exact integers: what their kernels have in common. docs/notes/exact-products.md has the
// definition, and why the error is what is stated.
//
// A row's chunk is CHUNK terms, that share a scale. Its terms are (n + m 2^-18) p 2^-23 exactly, where n is an integer of three signed
// bytes, and m is one too, zero but for one chunk of a hundred. Weights are integers less an integer. So a chunk's sums are exact in any
// order; rounded is what they give together, and what is added then.
//
// The compile script passes CHUNK (16u or 32u) and what block_products.glsl is passed, of FLOAT16.

#include "products/block_products.glsl"
#include "products/four_products.glsl"

#define CHUNKS ((parameters.terms + (CHUNK - 1u)) / CHUNK)
#define CHUNKS_OF_SEGMENT (SEGMENT / CHUNK)
#define CHUNK_WORDS (CHUNK / uint(WORD_TERMS)) // of a column
#define PLANE_WORDS (CHUNK / 4u) // of a row

// A word's integers as signed bytes, four at a time: part s has in its byte b the term b * WORD_PARTS + s. What is taken from them, so
// that bytes are signed, or added, so that they are no negative ones of fewer bits, is taken from their zeros too.
#define WORD_PARTS (8u / uint(WEIGHT_BITS))
#if WEIGHT_BITS == 8
#define WEIGHT_BYTES(word, part) (WEIGHTS_ARE_SIGNED ? (word) : (word) ^ 0x80808080u)
#define BYTES_LESS (WEIGHTS_ARE_SIGNED ? 0 : 128)
#else
#define WEIGHT_BYTES(word, part) (FLIPPED(word) >> (part) * uint(WEIGHT_BITS) & WEIGHT_MASK * 0x01010101u)
#define BYTES_LESS (WEIGHTS_ARE_SIGNED ? -(1 << (WEIGHT_BITS - 1)) : 0)
#endif
#define ZERO_OF_BYTES(bits) (int(bits) - BYTES_LESS)

// The exponent of p, as FLOAT32 has it: p is the least power of two of which the largest magnitude is less than 127/128.
#define EXPONENT_OF(peak) (((peak) + 0x20000u >> 23u) + 1u)
// p 2^-23, by which integers are what they stand for, and 2^23 / p. Of zeros alone both are 0; of what is not finite the first is NaN.
float unit_of(uint peak) {
    uint unit = peak == 0u ? 0u : EXPONENT_OF(peak) - 23u << 23u;
    return uintBitsToFloat(peak >= INFINITY_F32 ? NAN_F32 : unit);
}
float units_of(uint peak) { return uintBitsToFloat(peak == 0u || peak >= INFINITY_F32 ? 0u : 277u - EXPONENT_OF(peak) << 23u); }

// n of a term: what is not an integer is below 2^10, so that sums with 3 * 2^22 round it to nearest even, and leave all others as they are.
#define ROUNDS_FROM 12582912.0
float integer_of_term(float number) {
    precise float biased = number + ROUNDS_FROM;
#ifdef IS_FOR_PROCESSORS
    // By the bits: where SwiftShader's optimizer unrolls a loop, the copies lose NoContraction, and it takes the two sums for none.
    float rounded = float(int(floatBitsToUint(biased)) - int(floatBitsToUint(ROUNDS_FROM)));
    return (floatBitsToUint(number) & MAGNITUDE_F32) < 0x4a800000u ? rounded : number; // 2^22
#else
    precise float rounded = biased - ROUNDS_FROM;
    return rounded;
#endif
}
// m of a term, by what is left over of its number.
int rest_of_left_over(float left_over) {
    precise float rest = left_over * 262144.0; // 2^18
    return int(rest);
}
// What a sum of products with m stands for. It is rounded once, by a sum: devices may round integers of more than 24 bits as they like.
float rest_of_sum(int sum) {
    float rounded = exact_product_plus(float(sum >> 16), 65536.0, float(sum & 0xffff));
    precise float rest = rounded * 3.814697265625e-06; // 2^-18
    return rest;
}

// The bytes of four integers: a word of the first ones, one of the second and one of the third. With 128 added to each byte none is negative,
// and its highest bit is turned over.
uvec3 bytes_of(ivec4 integers) {
    uvec4 biased = uvec4(integers + 0x808080);
    uvec2 low = biased.xy & 0xffffu | biased.zw << 16u;
    uvec2 high = biased.xy >> 16u | biased.zw & 0xffff0000u;
    uvec3 words = uvec3(high.x & 0xff00ffu | (high.y & 0xff00ffu) << 8u, low.x >> 8u & 0xff00ffu | low.y & 0xff00ff00u,
        low.x & 0xff00ffu | (low.y & 0xff00ffu) << 8u);
    return words ^ 0x80808080u;
}

// The sum of m times the weights over a chunk. `rests` has a bit for each term whose m is not zero.
float rest_of_chunk(uint row, uint column, uint number, uint first, uint rests, float units) {
    uint at = column * PACKED_COLUMN + first;
    int zero = ZERO_KIND == ZERO_IS_PACKED ? int(ZERO_AT(number, zero_index(column, first))) : int(ZERO_NUMBER);
    int sum = 0;
    for (; rests != 0u; rests &= rests - 1u) {
        uint term = uint(findLSB(rests));
        precise float scaled = uintBitsToFloat(operand(LOAD(OPERAND, words_left, left_index(row, first + term)))) * units;
        precise float left_over = scaled - integer_of_term(scaled);
        sum += rest_of_left_over(left_over) * (int(integer_of(WEIGHT_WORD(number, (at + term) / uint(WORD_TERMS)), at + term)) - zero);
    }
    return rest_of_sum(sum);
}

// The sum of n times the weights, rounded once, by the sums of the three bytes: each is below 2^20, and comes with the bits of 3 * 2^22
// added, so that it has its number as bits of FLOAT32. The last two together have 24 bits where weights have 4; of 8 bits they have more,
// whose highest ones go to the first.
#define SUM_BIAS 0x4b400000u
float number_of_sums(uint first, uint second, uint third) {
#if WEIGHT_BITS == 8
    int lower = int(second - SUM_BIAS) * 256 + int(third - SUM_BIAS);
    precise float high = uintBitsToFloat(first + uint(lower >> 16)) - ROUNDS_FROM;
    return exact_product_plus(high, 65536.0, float(lower & 0xffff));
#else
    precise float high = uintBitsToFloat(first) - ROUNDS_FROM;
    precise float middle = uintBitsToFloat(second) - ROUNDS_FROM;
    precise float low = uintBitsToFloat(third) - ROUNDS_FROM;
    return exact_product_plus(high, 65536.0, exact_product_plus(middle, 256.0, low));
#endif
}
// And what a chunk is, with p 2^-23 and the scale, whose product is exact.
float value_of_chunk(float number, float unit, float scale) {
    precise float factor = unit * scale;
    precise float value = number * factor;
    return value;
}

// A row's total where that is not finite: an infinity, or NaN where there is one, or infinities of both signs. llvmpipe ends loops after
// 65535 turns of an invocation: there a turn is written out.
#ifdef IS_FOR_PROCESSORS
#define TERMS_OF_TURN [[unroll]]
#else
#define TERMS_OF_TURN [[dont_unroll]]
#endif
uint plain_total(uint row, uint column, uint number) {
    uint infinities = 0u; // 1: of positive sign, 2: of negative sign
    [[dont_unroll]] for (uint first = 0u; first < parameters.terms && infinities != 3u; first += 32u) {
        TERMS_OF_TURN for (uint i = 0u; i < 32u; i += 4u) {
            uint term = min(first + i, parameters.terms - 1u);
            uint scale = operand(SCALE_AT(number, scale_index(column, term)));
            uint zero = ZERO_KIND == ZERO_IS_PACKED ? ZERO_AT(number, zero_index(column, term)) : ZERO_NUMBER;
            uvec4 four = left_four(row, first + i, parameters.terms);
            [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                uint magnitude = four[k] & MAGNITUDE_F32;
                uint largest = max(magnitude, scale & MAGNITUDE_F32);
                if (first + i + k < parameters.terms && largest >= INFINITY_F32) {
                    uint index = column * PACKED_COLUMN + first + i + k;
                    uint weight = integer_of(WEIGHT_WORD(number, index / uint(WORD_TERMS)), index) - zero;
                    bool is_number = largest == INFINITY_F32 && magnitude != 0u && (scale & MAGNITUDE_F32) != 0u && weight != 0u;
                    infinities |= is_number ? 1u << ((four[k] ^ scale ^ weight) >> 31u) : 3u;
                }
            }
        }
    }
    return infinities == 3u ? NAN_F32 : infinities << 30u & SIGN_F32 | INFINITY_F32;
}

// A total by its definition, term by term: of rows whose parts (packed_layout.glsl) have no exact sums.
float total_of_terms(uint row, uint column, uint number) {
    precise float total = 0.0;
    for (uint segment = 0u; segment < parameters.terms; segment += SEGMENT) {
        precise float sum = 0.0;
        for (uint first = segment; first < min(segment + SEGMENT, parameters.terms); first += CHUNK) {
            uint count = min(CHUNK, parameters.terms - first);
            uint peak = 0u;
            for (uint term = 0u; term < count; ++term) {
                peak = max(peak, operand(LOAD(OPERAND, words_left, left_index(row, first + term))) & MAGNITUDE_F32);
            }
            float units = units_of(peak);
            int zero = ZERO_KIND == ZERO_IS_PACKED ? int(ZERO_AT(number, zero_index(column, first))) : int(ZERO_NUMBER);
            int high = 0;
            int low = 0;
            uint rests = 0u;
            for (uint term = 0u; term < count; ++term) {
                precise float scaled = uintBitsToFloat(operand(LOAD(OPERAND, words_left, left_index(row, first + term)))) * units;
                float whole = integer_of_term(scaled);
                int integer = int(whole);
                uint at = column * PACKED_COLUMN + first + term;
                int weight = int(integer_of(WEIGHT_WORD(number, at / uint(WORD_TERMS)), at)) - zero;
                high += (integer + 2048 >> 12) * weight;
                low += (integer - (integer + 2048 >> 12) * 4096) * weight;
                rests |= scaled != whole ? 1u << term : 0u;
            }
            precise float value = exact_product_plus(float(high), 4096.0, float(low));
            value = value + rest_of_chunk(row, column, number, first, rests, units);
            uint scale = NUMBER_OF(SCALE_AT(number, scale_index(column, first)));
            sum = sum + value_of_chunk(value, unit_of(peak), uintBitsToFloat(scale));
        }
        total = total + sum;
    }
    return total;
}

uint result_of_total(float total, uint row, uint column, uint number) {
    return finished(is_finite(total) ? floatBitsToUint(total) : plain_total(row, column, number), row, column);
}

// The same where a total that is not finite may be one whose row's parts are not exact.
uint result_of_sums(float total, uint row, uint column, uint number) {
    return result_of_total(is_finite(total) ? total : total_of_terms(row, column, number), row, column, number);
}
