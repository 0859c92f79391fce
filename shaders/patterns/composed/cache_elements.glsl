// Elements of caches of keys and values, in pairs: of the operands' type; or, with CACHE_BITS, integers, which a scale makes numbers as
// DEQUANTIZE does: the product is rounded to FLOAT32, and to FLOAT16 where that is the operands' type. Integers of 8 bits are signed; of
// 4 bits, 8 is added to them. One scale is for all, or each element of each head has one.
//
// Included behind pairs.glsl, by files that with CACHE_BITS have FLOAT32 buffers `key_scale` and `value_scale`. A scale's place is that of
// a pair among those of all heads of a token.

#ifdef CACHE_BITS
#include "arithmetic.glsl"
#include "quantization.glsl"

layout(constant_id = 13) const bool ELEMENTS_HAVE_SCALES = false; // each of its own

#define HALF_RANGE (1 << (CACHE_BITS - 1))
#define PAIR_BITS_WIDE (2u * CACHE_BITS)
#define PAIR_MASK ((1u << PAIR_BITS_WIDE) - 1u)
#define PAIRS_OF_WORD (32u / PAIR_BITS_WIDE)
#define PAIR_POSITION(pair) ((pair) % PAIRS_OF_WORD * PAIR_BITS_WIDE)
#define PAIR_WORD(name, pair) (BASE_WORD(name) + (pair) / PAIRS_OF_WORD)
#define PACKED_PAIR(name, pair) ((words_##name[PAIR_WORD(name, pair)] >> PAIR_POSITION(pair)) & PAIR_MASK)
// Other invocations may be storing a word's other pairs.
#define STORE_PACKED_PAIR(name, pair, bits) \
    atomicAnd(words_##name[PAIR_WORD(name, pair)], ~(PAIR_MASK << PAIR_POSITION(pair))); \
    atomicOr(words_##name[PAIR_WORD(name, pair)], (bits) << PAIR_POSITION(pair))

#define SCALE_BITS(name, index, i) words_##name##_scale[BASE_WORD(name##_scale) + (ELEMENTS_HAVE_SCALES ? 2u * (index) + (i) : 0u)]
#define PAIR_SCALES(name, index) uvec2(SCALE_BITS(name, index, 0u), SCALE_BITS(name, index, 1u))

uint as_element(uint bits) {
#if ELEMENT_BITS == 16
    return float32_from_float16(float16_from_float32(bits));
#else
    return bits;
#endif
}

// The integers of a pair.
ivec2 integers_of(uint packed) {
#if CACHE_BITS == 8
    return ivec2(int(packed << 24) >> 24, int(packed << 16) >> 24);
#else
    return ivec2(packed & 15u, packed >> 4) - HALF_RANGE;
#endif
}

uvec2 dequantized(uint packed, uvec2 scales) {
    vec2 integers = vec2(integers_of(packed));
    return uvec2(
        as_element(multiply_f32(floatBitsToUint(integers.x), scales.x)),
        as_element(multiply_f32(floatBitsToUint(integers.y), scales.y)));
}

uint quantized(uvec2 bits, uvec2 scales) {
    ivec2 integers = ivec2(rounded_quotient_f32(bits.x, scales.x), rounded_quotient_f32(bits.y, scales.y));
    uvec2 stored = uvec2(min(max(integers, -HALF_RANGE), HALF_RANGE - 1));
#if CACHE_BITS == 4
    stored += 8u;
#endif
    const uint mask = (1u << CACHE_BITS) - 1u;
    return (stored.x & mask) | (stored.y & mask) << CACHE_BITS;
}

#define CACHED_PAIR(keys, key, pair, index) dequantized(PACKED_PAIR(keys, pair), PAIR_SCALES(key, index))
#define STORE_CACHED_PAIR(keys, key, pair, index, bits) STORE_PACKED_PAIR(keys, pair, quantized(bits, PAIR_SCALES(key, index)))
#define MOVE_CACHED_PAIR(target, to, source, from) STORE_PACKED_PAIR(target, to, PACKED_PAIR(source, from))
#define CLEAR_CACHED_PAIR(target, to) STORE_PACKED_PAIR(target, to, 0u)
#else
#define CACHED_PAIR(keys, key, pair, index) PAIR_BITS(keys, pair)
#define STORE_CACHED_PAIR(keys, key, pair, index, bits) STORE_PAIR(keys, pair, bits)
#define MOVE_CACHED_PAIR MOVE_PAIR
#define CLEAR_CACHED_PAIR CLEAR_PAIR
#endif
