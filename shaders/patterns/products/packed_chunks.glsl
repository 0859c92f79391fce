// Products of rows by packed weights, chunk by chunk: what their kernels have in common. docs/notes/exact-products.md has the definition, and
// why the error is what is stated.
//
// A chunk is CHUNK terms of a column that share a scale. The terms times the integers, less what stands for zero, are added in rising order;
// the sum is multiplied by the scale, and the sum of the terms times the minimum is taken from that. Chunks are added in rising order in
// segments, and segments in rising order. Each step is rounded.
//
// A chunk whose steps may be denormal gives NaN. A total that is not finite is computed again as the definition has it.
//
// The compile script passes CHUNK (16u or 32u, 8u with 8 bits), IS_CHUNKED and what block_products.glsl is passed.

#include "products/block_products.glsl"

#define CHUNKS ((parameters.terms + (CHUNK - 1u)) / CHUNK)
#define CHUNKS_OF_SEGMENT (SEGMENT / CHUNK)
#define CHUNK_WORDS (CHUNK / uint(WORD_TERMS)) // of a column, in its first plane
#if WEIGHT_BITS == 8
#define MOST_HIGH 1u
#else
#define MOST_HIGH ((CHUNK * (WEIGHT_BITS / 2u) + 31u) / 32u) // words of its second plane, at most
#endif
#define CHUNK_HIGH ((CHUNK * HIGH_BITS + 31u) / 32u)
// The bits of the second plane that belong to word k of the first one, of an array with the words that a chunk has there.
#define WORD_HIGH (uint(WORD_TERMS) * HIGH_BITS)
#define HIGH_OF_WORD(high, from, k) \
    (HIGH_BITS == 0u ? 0u : high_of(high[(from) + (k) * WORD_HIGH / 32u], term) >> ((k) * WORD_HIGH % 32u))

// Where rows lie for tiles: of each chunk planes of all lines, which are the rows with those that fill up tiles. A plane has a term of each line
// as FLOAT32; then come the sums of a line's terms, and what least_scale says of them.
#define ROW_PLANES (CHUNK + 2u)
#define PLANE_OF_SUMS CHUNK
#define PLANE_OF_LEAST (CHUNK + 1u)
#define ROW_PLANE(chunk, plane, lines) (((chunk) * ROW_PLANES + (plane)) * (lines))

// A sum and a product: of FLOAT16 terms with integers it is exact, and one step for devices that have one.
float chunk_product_plus(float term, float weight, float sum) {
#if OPERAND_BITS == 16
    if (ZERO_KIND == ZERO_IS_FLOAT) {
        precise float product = term * weight;
        precise float next = sum + product;
        return next;
    }
#endif
    return product_plus(term, weight, sum);
}

// From which magnitude on a chunk's scale and minimum leave no step denormal, less one; the lowest term is 2^(e - 127) at least. The sums
// of terms are multiples of 2^(e - 150), so that they are none from e = 24 on. With 2^(f - 127) as the lowest magnitude of scale and
// minimum, and e + f >= 175, what is made of them is zero or at least 2^-102, and so sums of it are multiples of 2^-126.
//
// Differences from zeros that are floats must be zero or 2^-24 at least, and leave products that are 2^24 times less.
#define DIFFERENCES_ARE_SMALL (ZERO_KIND == ZERO_IS_FLOAT ? 24u : 0u)
#define LEAST_DIFFERENCE ((103u << 24u) - 1u)
uint least_scale(uint lowest) {
#if LOOKS_AT_DENORMALS
    uint exponent = (lowest + 1u) >> 24u;
    if (lowest == NO_LOWEST || exponent >= 175u + DIFFERENCES_ARE_SMALL) { return 0u; }
    return exponent < 24u + DIFFERENCES_ARE_SMALL ? 0xffffffffu : (175u + DIFFERENCES_ARE_SMALL - exponent << 23u) - 1u;
#else
    return 0u;
#endif
}
uint magnitude_less_one(uint bits) { return (bits & MAGNITUDE_F32) - 1u; } // so that zeros count as the largest
bool is_plain_with(uint scale, uint least) { return magnitude_less_one(scale) >= least; }

float value_of_chunk(float products, float terms, uint scale, uint minimum, uint least, uint difference) {
    precise float value = products * uintBitsToFloat(scale);
    bool plain = is_plain_with(scale, least) && difference >= LEAST_DIFFERENCE;
    if (HAS_MINIMA) {
        precise float less = terms * uintBitsToFloat(minimum);
        precise float difference = value - less;
        value = difference;
        plain = plain && is_plain_with(minimum, least);
    }
#if LOOKS_AT_DENORMALS
    return plain ? value : uintBitsToFloat(NAN_F32);
#else
    return value;
#endif
}

#ifdef IS_GATED
#define MINIMUM_AT(number, column, term) (IS_UP(number) ? scale_up_minimum(column, term) : scale_minimum(column, term))
#define INTEGER_AT(number, column, term) (IS_UP(number) ? packed_up_integer(column, term) : packed_integer(column, term))
#else
#define MINIMUM_AT(number, column, term) scale_minimum(column, term)
#define INTEGER_AT(number, column, term) packed_integer(column, term)
#endif

// What a chunk gives by its definition. Where sums that are not finite are so of finite terms, terms count 2^-24 times.
uint exact_chunk(uint row, uint column, uint number, uint first) {
    uint end = min(first + CHUNK, parameters.terms);
    uvec2 entry = entry_of(SCALE_AT(number, scale_index(column, first)), ZERO_AT(number, zero_index(column, first)));
    uint share = ONE_F32;
    uint products = 0u;
    uint terms = 0u;
    for (uint turn = 0u; turn < 2u; ++turn) {
        products = 0u;
        terms = 0u;
        for (uint term = first; term < end; term += 4u) { // processors end loops after so many turns
            uvec4 four = left_four(row, term, end);
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint own = multiply_f32(four[i], share);
                uint integer = floatBitsToUint(float_of_short(int(INTEGER_AT(number, column, min(term + i, end - 1u)))));
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

// A total by its definition.
uint exact_total(uint row, uint column, uint number) {
    uint total = 0u;
    for (uint segment = 0u; segment < parameters.terms; segment += SEGMENT) {
        uint sum = 0u;
        for (uint first = segment; first < min(segment + SEGMENT, parameters.terms); first += CHUNK) {
            sum = sum_plus(sum, exact_chunk(row, column, number, first));
        }
        total = segment == 0u ? sum : sum_plus(total, sum);
    }
    return total;
}

uint result_of_total(float total, uint row, uint column, uint number) {
    return finished(is_finite(total) ? floatBitsToUint(total) : exact_total(row, column, number), row, column);
}
