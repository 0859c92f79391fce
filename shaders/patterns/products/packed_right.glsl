// The right operand of matrix_cooperative.glsl as integers of 4 bits along the terms, with a scale for each block of them: numbers are made
// of eight at once when they are put into shared memory, with the bits of DEQUANTIZE. Blocks have eights. Included behind matrix.glsl.

#include "float16_rounding.glsl"

layout(constant_id = 1005) const bool MULTIPLIES_HALVES = false;
layout(constant_id = 44) const uint WEIGHT_BLOCK = 32u;
layout(constant_id = 45) const uint SCALE_COLUMN = 1u; // steps from column to column, in elements
layout(constant_id = 46) const uint ZERO_COLUMN = 1u;
layout(constant_id = 47) const bool HAS_ZEROS = false; // integers of 4 bits; else one number stands for all
layout(constant_id = 48) const uint ZERO_NUMBER = 0u;
layout(constant_id = 49) const bool WEIGHTS_ARE_SIGNED = false;

// Eight integers as they were loaded, and what they have in common.
struct PackedEight {
    uint integers, scale, zero;
};
#define NO_PACKED_EIGHT PackedEight(0u, 0u, 0u)

PackedEight packed_eight(uint column, uint term) {
    uint block = term / WEIGHT_BLOCK;
    uint zero = ZERO_NUMBER;
    if (HAS_ZEROS) {
        uint element = column * ZERO_COLUMN + block;
        zero = words_zero[BASE_WORD(zero) + element / 8u] >> element % 8u * 4u;
    }
    uint integers = words_right[BASE_WORD(right) + (column * parameters.right_column + term) / 8u];
    return PackedEight(integers, LOAD_float16(words_scale, BASE(16, scale) + column * SCALE_COLUMN + block), zero);
}

// The bits of eight numbers. Pairs of integers that lie 16 bits apart are made floats of FLOAT16 by their exponents' bits, as
// block_halves.glsl has it; an integer less another one is exact.
uvec4 numbers_of(PackedEight eight) {
    uint flipped = WEIGHTS_ARE_SIGNED ? eight.integers ^ 0x88888888u : eight.integers;
    float zero = float(int(HAS_ZEROS ? eight.zero & 15u : eight.zero));
    if (WEIGHTS_ARE_SIGNED) { zero = HAS_ZEROS ? float(int(eight.zero << 28) >> 28) + 8.0 : zero + 8.0; }
    uint pairs[4];
    if (MULTIPLIES_HALVES) {
        f16vec2 scale = unpackFloat2x16(eight.scale * 0x00010001u);
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint masked = flipped >> (i / 2u * 8u) & (0x000f000fu << (i % 2u * 4u));
            f16vec2 biased = unpackFloat2x16(masked | (i % 2u == 0u ? 0x64006400u : 0x54005400u)); // 2^10 and 2^6 are added
            precise f16vec2 integers = biased - f16vec2(float16_t((i % 2u == 0u ? 1024.0 : 64.0) + zero));
            precise f16vec2 products = integers * scale;
            pairs[i] = packFloat2x16(products);
        }
    } else {
        float scale = uintBitsToFloat(float32_from_float16(eight.scale));
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            precise float low = (float(int(flipped >> (4u * i) & 15u)) - zero) * scale;
            precise float high = (float(int(flipped >> (4u * i + 16u) & 15u)) - zero) * scale;
            pairs[i] = float16_from_number(floatBitsToUint(low)) | float16_from_number(floatBitsToUint(high)) << 16u;
        }
    }
    uvec2 low = uvec2(pairs[0] & 0xffffu | pairs[1] << 16u, pairs[2] & 0xffffu | pairs[3] << 16u);
    uvec2 high = uvec2(pairs[0] >> 16u | pairs[1] & 0xffff0000u, pairs[2] >> 16u | pairs[3] & 0xffff0000u);
    return uvec4(low, high);
}
