// Matrices whose elements are numbered by invocations, as they lie in memory, each kind by its product with the unit matrix: of 16 x 16 sums and
// a left operand; of 16 x 8 sums and a right operand, and sums of 32 products of which each has as many bits as FLOAT32 keeps.
// dmlvk/trials/matrix_trial.py looks whether they lie in quads (cooperative_quads.glsl).

#define OPERAND_BITS 16
#define INVOCATIONS 32
#include "cooperative_floats.glsl"
#include "cooperative_quads.glsl"
#define coherent

layout(local_size_x = INVOCATIONS) in;

layout(push_constant) uniform Parameters {
    uint base_numbers; // where the result begins in its buffer, in words
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, numbers)

shared uvec4 lines[64];

#define STORE_MATRIX(sums, first) \
    SUBGROUP_BARRIER \
    STORE_SUMS(lines, 0u, sums, RIGHT_SIDE / 4u) \
    SUBGROUP_BARRIER \
    for (uint i = LANE; i < RIGHT_SIDE * 4u; i += 32u) { \
        fours_numbers[(BASE_WORD(numbers) >> 2u) + (first) * RIGHT_SIDE * 4u + i] = lines[i]; \
    } \
    SUBGROUP_BARRIER

void main() {
    uint one = LANE % 2u == 0u ? 0x3c00u : 0x3c000000u; // FLOAT16
    uvec4 own = uvec4(0u);
    own[LANE / 2u % 4u] = one;
    SUMS sums;
    LEFT_FLOATS left;
    RIGHT_FLOATS right;
#if MATRIX_COLUMNS == 8
    vec4 numbers = vec4(int(LANE) * 4 + ivec4(0, 1, 2, 3));
    SUMS_OF(sums, numbers)
#else
    vec4 upper = vec4(int(LANE) * 8 + ivec4(0, 1, 2, 3));
    vec4 lower = vec4(int(LANE) * 8 + ivec4(4, 5, 6, 7));
    SUMS_OF_ELEMENTS(sums, upper, lower)
#endif
    STORE_MATRIX(sums, 0u)
    if (LANE < 16u) { // a row of the unit matrix
        lines[2u * LANE] = LANE < 8u ? own : uvec4(0u);
        lines[2u * LANE + 1u] = LANE < 8u ? uvec4(0u) : own;
    }
    SUBGROUP_BARRIER
    sums = filled_with(0.0);
#if MATRIX_COLUMNS == 8
    LOAD_LEFT_FLOATS(left, lines, 0u, BY_ROWS, 2u)
    RIGHT_OF_PAIRS(right, packHalf2x16(numbers.xy), packHalf2x16(numbers.zw))
#else
    LOAD_RIGHT_FLOATS(right, lines, 0u, BY_ROWS, 2u)
    LEFT_OF_ELEMENTS(left, upper, lower)
#endif
    sums = matrices_product_plus(left, right, sums);
    STORE_MATRIX(sums, 1u)
#if MATRIX_COLUMNS == 8
    // 255 * 2047 * 2^-24 but for one, which is 255 * 2^-24, by a denormal.
    vec4 largest = vec4(255.0);
    LEFT_OF_ELEMENTS(left, largest, largest)
    lines[LANE] = uvec4(LANE % 4u == 0u ? 0x07ff0001u : 0x07ff07ffu, 0x07ff07ffu, 0u, 0u); // read back: llvmpipe takes constants wrongly apart
    SUBGROUP_BARRIER
    sums = filled_with(0.0);
    RIGHT_OF_PAIRS(right, lines[LANE].y, lines[LANE].y)
    sums = matrices_product_plus(left, right, sums);
    RIGHT_OF_PAIRS(right, lines[LANE].x, lines[LANE].y)
    sums = matrices_product_plus(left, right, sums);
    STORE_MATRIX(sums, 2u)
#endif
}
