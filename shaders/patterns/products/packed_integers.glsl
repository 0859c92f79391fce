// Products of rows by packed weights by exact integers: what their kernels have in common. docs/notes/exact-products.md has the definition,
// and why the error is what is stated.
//
// A row's chunk is CHUNK terms, that share a scale. Its terms are (n + m 2^-18) p 2^-23 exactly, where n is an integer of three signed
// bytes, and m is one too, zero but for one chunk of a hundred. Weights are integers less an integer. So a chunk's sums are exact in any
// order; rounded is what they give together, and what is added then.
//
// With IS_WIDE, of rows of FLOAT32 and of weights of all kinds, terms are (n + m 2^-18) p 2^-31: n has four bytes, and m counts where a term
// is so small that it would be off by too much (rest_limit). A chunk gives NaN where its terms, scale or minimum are out of range
// (is_in_range, are_plain), or it is thin and gives nearly nothing: then a total is computed again, with the chunk's sum term by term
// (exact_chunk).
//
// The compile script passes CHUNK (16u or 32u, with IS_WIDE also 8u) and what block_products.glsl is passed.

#include "products/block_products.glsl"
#include "products/four_products.glsl"

#include "products/packed_terms.glsl"

#define CHUNKS ((parameters.terms + (CHUNK - 1u)) / CHUNK)
#define CHUNKS_OF_SEGMENT (SEGMENT / CHUNK)
#define CHUNK_WORDS (CHUNK / uint(WORD_TERMS)) // of a column
#define PLANE_WORDS (CHUNK / 4u) // of a row
#if !defined(IS_WIDE) || WEIGHT_BITS == 8
#define MOST_HIGH 1u
#define CHUNK_HIGH 0u
#else
#define MOST_HIGH ((CHUNK * (WEIGHT_BITS / 2u) + 31u) / 32u) // words of a chunk's second plane, at most
#define CHUNK_HIGH ((CHUNK * HIGH_BITS + 31u) / 32u)
#endif
// The bits of the second plane that belong to word k of the first one, of an array with the words that a chunk has there.
#define WORD_HIGH (uint(WORD_TERMS) * HIGH_BITS)
#define HIGH_OF_WORD(high, from, k) \
    (HIGH_BITS == 0u ? 0u : high_of(high[(from) + (k) * WORD_HIGH / 32u], term) >> ((k) * WORD_HIGH % 32u))

// A word's integers as signed bytes, four at a time: part s has in its byte b the term b * WORD_PARTS + s. What is taken from them, so
// that bytes are signed, or added, so that they are no negative ones of fewer bits, is taken from their zeros too.
#define WORD_PARTS (8u / uint(WEIGHT_BITS))
#ifdef IS_WIDE
uint weight_bytes(uint word, uint high, uint part) {
#if WEIGHT_BITS == 8
    return WEIGHTS_ARE_SIGNED ? word : word ^ 0x80808080u;
#else
    uint bytes = FLIPPED(word) >> part * uint(WEIGHT_BITS) & WEIGHT_MASK * 0x01010101u;
    if (TABLE != 0u) {
        uint numbers = number_of(bytes & 15u) | number_of(bytes >> 8u & 15u) << 8u;
        return (numbers | number_of(bytes >> 16u & 15u) << 16u | number_of(bytes >> 24u) << 24u) ^ 0x80808080u;
    }
    if (HIGH_BITS != 0u) { // of each byte's WORD_PARTS terms the bits lie together
        uint group = WORD_PARTS * HIGH_BITS;
        uint halves = high & (1u << 2u * group) - 1u | (high >> 2u * group & (1u << 2u * group) - 1u) << 16u;
        uint mask = ((1u << group) - 1u) * 0x00010001u;
        uint groups = halves & mask | (halves >> group & mask) << 8u;
        bytes |= (groups >> part * HIGH_BITS & HIGH_MASK * 0x01010101u) << uint(WEIGHT_BITS);
    }
    return bytes;
#endif
}
#define WEIGHT_BYTES(word, high, part) weight_bytes(word, high, part)
// Step by step: glslang would make one constant of an expression, whose parts it leaves out.
int bytes_less() {
    int less = 0;
#if WEIGHT_BITS == 8
    if (!WEIGHTS_ARE_SIGNED) { less = 128; }
#else
    if (WEIGHTS_ARE_SIGNED) { less = -(1 << (WEIGHT_BITS - 1)); }
#endif
    if (TABLE != 0u) { less = 128; }
    return less;
}
#define BYTES_LESS bytes_less()
#elif WEIGHT_BITS == 8
#define WEIGHT_BYTES(word, high, part) (WEIGHTS_ARE_SIGNED ? (word) : (word) ^ 0x80808080u)
#define BYTES_LESS (WEIGHTS_ARE_SIGNED ? 0 : 128)
#else
#define WEIGHT_BYTES(word, high, part) (FLIPPED(word) >> (part) * uint(WEIGHT_BITS) & WEIGHT_MASK * 0x01010101u)
#define BYTES_LESS (WEIGHTS_ARE_SIGNED ? -(1 << (WEIGHT_BITS - 1)) : 0)
#endif
#define ZERO_OF_BYTES(bits) (int(bits) - BYTES_LESS)

#ifdef IS_GATED
#define MINIMUM_AT(number, column, term) (IS_UP(number) ? scale_up_minimum(column, term) : scale_minimum(column, term))
#define INTEGER_AT(number, column, term) (IS_UP(number) ? packed_up_integer(column, term) : packed_integer(column, term))
#else
#define MINIMUM_AT(number, column, term) scale_minimum(column, term)
#define INTEGER_AT(number, column, term) packed_integer(column, term)
#endif
// What is taken from integers, as one: floats that stand for zero are minima.
#define ZERO_INTEGER(zero) (ZERO_KIND == ZERO_IS_PACKED ? int(zero) : ZERO_KIND == ZERO_IS_FLOAT ? 0 : int(ZERO_NUMBER))
#define ZERO_INTEGER_AT(number, column, term) \
    ZERO_INTEGER(ZERO_KIND == ZERO_IS_PACKED ? ZERO_AT(number, zero_index(column, term)) : 0u)

// The sum of m times the weights over a chunk. `rests` has a bit for each term whose m is not zero.
float rest_of_chunk(uint row, uint column, uint number, uint first, uint rests, float units) {
    int zero = ZERO_INTEGER_AT(number, column, first);
    int sum = 0;
    for (; rests != 0u; rests &= rests - 1u) {
        uint term = first + uint(findLSB(rests));
        precise float scaled = uintBitsToFloat(operand(LOAD(OPERAND, words_left, left_index(row, term)))) * units;
        float left_over;
        integer_of_term(scaled, left_over);
        sum += rest_of_left_over(left_over) * (int(INTEGER_AT(number, column, term)) - zero);
    }
    return rest_of_sum(sum);
}

// The sum of n times the weights, rounded once, by the sums of bytes: each is below 2^20, and comes with the bits of 3 * 2^22 added, so
// that it has its number as bits of FLOAT32.
#define SUM_BIAS 0x4b400000u
#ifdef IS_WIDE
float number_of_sums(uint first, uint second, uint third, uint fourth) {
    return number_of_halves(int(first - SUM_BIAS) * 256 + int(second - SUM_BIAS), int(third - SUM_BIAS) * 256 + int(fourth - SUM_BIAS));
}
#else
// The last two together have 24 bits where weights have 4; of more bits they have more, whose highest ones go to the first.
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
#endif

#ifdef IS_WIDE
// A block's scale and its minimum, by the words that have them or by where they are: as bits, never denormal.
uint minimum_by_zero(uint scale, uint zero) {
    precise float minimum = uintBitsToFloat(scale) * uintBitsToFloat(NUMBER_OF(zero));
    return floatBitsToUint(minimum) & (abs(minimum) < 1.17549435e-38 ? SIGN_F32 : 0xffffffffu);
}
#define SCALE_AND_MINIMUM(scale, zero, minimum) \
    uvec2(entry_of(scale, zero).x, HAS_MINIMA ? (minimum) : ZERO_KIND == ZERO_IS_FLOAT ? minimum_by_zero(NUMBER_OF(scale), zero) : 0u)
#define SCALE_AND_MINIMUM_AT(number, column, term) \
    SCALE_AND_MINIMUM(SCALE_AT(number, scale_index(column, term)), ZERO_AT(number, zero_index(column, term)), MINIMUM_AT(number, column, term))

// Whether they are in range: zero, or from 2^-24 to 2^30, as scales of FLOAT16 are, also times factors, if they are finite.
#define ARE_PLAIN_ALWAYS (SCALES_ARE_HALVES && ZERO_KIND != ZERO_IS_FLOAT)
bool is_plain_number(uint bits) {
    uint magnitude = bits & MAGNITUDE_F32;
    return magnitude == 0u || magnitude - (103u << 23u) < (54u << 23u);
}
bool are_plain(uvec2 of_block) { return ARE_PLAIN_ALWAYS || (is_plain_number(of_block.x) && is_plain_number(of_block.y)); }

bool is_good_enough(float number, float unit) { return unit >= 0.0 || abs(number) >= THIN_NUMBER; }

// What a chunk is, with the number that the sum of the terms is, p 2^-23, scale and minimum, whose products with that are exact.
float value_of_chunk(float number, float terms, float unit, uvec2 of_block) {
    precise float factor = abs(unit) * uintBitsToFloat(of_block.x);
    precise float value = number * factor;
    if (HAS_MINIMA || ZERO_KIND == ZERO_IS_FLOAT) {
        precise float minimum = abs(unit) * uintBitsToFloat(of_block.y);
        precise float less = terms * minimum;
        precise float difference = value - less;
        value = difference;
    }
    return are_plain(of_block) && is_good_enough(number, unit) ? value : uintBitsToFloat(NAN_F32);
}

// What a chunk out of range gives: each step rounded, in rising order; denormals are zeros. Where sums that are not finite are so of finite
// terms, terms count 2^-24 times.
uint exact_chunk(uint row, uint column, uint number, uint first) {
    uint end = min(first + CHUNK, parameters.terms);
    uvec2 entry = entry_of(SCALE_AT(number, scale_index(column, first)), ZERO_AT(number, zero_index(column, first)));
    uint share = ONE_F32;
    uint products = 0u;
    uint terms = 0u;
    for (uint turn = 0u; turn < 2u; ++turn) {
        products = 0u;
        terms = 0u;
        for (uint eight = first; eight < end; eight += 8u) { // processors end loops after so many turns
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                uint term = eight + i;
                uint own = multiply_f32(term < end ? operand(LOAD(OPERAND, words_left, left_index(row, term))) : 0u, share);
                uint integer = floatBitsToUint(float_of_short(int(INTEGER_AT(number, column, min(term, end - 1u)))));
                products = sum_plus(products, multiply_f32(own, subtract_f32(integer, entry.y)));
                terms = sum_plus(terms, own);
            }
        }
        if (is_finite(uintBitsToFloat(products)) && is_finite(uintBitsToFloat(terms))) { break; }
        share = 0x33800000u; // 2^-24
    }
    uint value = multiply_f32(products, entry.x);
    if (HAS_MINIMA) { value = subtract_f32(value, multiply_f32(terms, MINIMUM_AT(number, column, first))); }
    return share == ONE_F32 ? value : multiply_f32(value, 0x4b800000u); // 2^24
}

// The number that sums of halves and of rests are.
float number_with_rests(int upper, int lower, int rests) {
    precise float number = number_of_halves(upper, lower) + rest_of_sum(rests);
    return number;
}

// A total by its definition: where one is not finite.
float total_of_terms(uint row, uint column, uint number) {
    uint total = 0u;
    for (uint segment = 0u; segment < parameters.terms; segment += SEGMENT) {
        uint sum = 0u;
        for (uint first = segment; first < min(segment + SEGMENT, parameters.terms); first += CHUNK) {
            uint end = min(first + CHUNK, parameters.terms);
            uint peak = 0u;
            uint lowest = NO_LOWEST;
            for (uint eight = first; eight < end; eight += 8u) {
                [[unroll]] for (uint i = 0u; i < 8u; i += 4u) {
                    uvec4 four = left_four(row, eight + i, end);
                    uvec4 magnitudes = four & MAGNITUDE_F32;
                    peak = max(peak, max(max(magnitudes.x, magnitudes.y), max(magnitudes.z, magnitudes.w)));
                    lowest = min(lowest, lowest_of_four(four));
                }
            }
            uvec2 of_block = SCALE_AND_MINIMUM_AT(number, column, first);
            float unit = unit_of(peak, true, is_thin(peak, lowest));
            if (!is_in_range(peak) || !are_plain(of_block) || max(of_block.x & MAGNITUDE_F32, of_block.y & MAGNITUDE_F32) >= INFINITY_F32) {
                sum = sum_plus(sum, exact_chunk(row, column, number, first));
                continue;
            }
            float units = units_of(peak, true);
            int zero = ZERO_INTEGER_AT(number, column, first);
            ivec2 uppers = ivec2(0); // of products, and of terms
            ivec2 lowers = ivec2(0);
            ivec2 rests = ivec2(0);
            for (uint eight = first; eight < end; eight += 8u) {
                [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                    uint term = min(eight + i, end - 1u);
                    uint bits = eight + i < end ? operand(LOAD(OPERAND, words_left, left_index(row, term))) : 0u;
                    precise float scaled = uintBitsToFloat(bits) * units;
                    float left_over;
                    int integer = integer_of_term(scaled, left_over);
                    int upper = UPPER_HALF(integer);
                    int weight = int(INTEGER_AT(number, column, term)) - zero;
                    uppers += upper * ivec2(weight, 1);
                    lowers += (integer - upper * 65536) * ivec2(weight, 1);
                    rests += rest_of_left_over(left_over) * ivec2(weight, 1);
                }
            }
            float product = number_with_rests(uppers.x, lowers.x, rests.x);
            float value = value_of_chunk(product, number_with_rests(uppers.y, lowers.y, rests.y), unit, of_block);
            bool is_good = is_good_enough(product, unit);
            sum = sum_plus(sum, is_good ? floatBitsToUint(value) : exact_chunk(row, column, number, first));
        }
        total = segment == 0u ? sum : sum_plus(total, sum);
    }
    return uintBitsToFloat(total);
}

uint result_of_total(float total, uint row, uint column, uint number) {
    return finished(floatBitsToUint(is_finite(total) ? total : total_of_terms(row, column, number)), row, column);
}
uint result_of_sums(float total, uint row, uint column, uint number) { return result_of_total(total, row, column, number); }
#else
// What a chunk is, with p 2^-23 and the scale, whose product is exact.
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
            bool in_range = is_in_range(peak);
            float units = units_of(peak, in_range);
            int zero = ZERO_KIND == ZERO_IS_PACKED ? int(ZERO_AT(number, zero_index(column, first))) : int(ZERO_NUMBER);
            int high = 0;
            int low = 0;
            uint rests = 0u;
            for (uint term = 0u; term < count; ++term) {
                precise float scaled = uintBitsToFloat(operand(LOAD(OPERAND, words_left, left_index(row, first + term)))) * units;
                float left_over;
                int integer = integer_of_term(scaled, left_over);
                uint at = column * PACKED_COLUMN + first + term;
                int weight = int(integer_of(WEIGHT_WORD(number, at / uint(WORD_TERMS)), at)) - zero;
                high += (integer + 2048 >> 12) * weight;
                low += (integer - (integer + 2048 >> 12) * 4096) * weight;
                rests |= left_over != 0.0 ? 1u << term : 0u;
            }
            precise float value = exact_product_plus(float(high), 4096.0, float(low));
            value = value + rest_of_chunk(row, column, number, first, rests, units);
            uint scale = NUMBER_OF(SCALE_AT(number, scale_index(column, first)));
            sum = sum + value_of_chunk(value, unit_of(peak, in_range, false), uintBitsToFloat(scale));
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
#endif
