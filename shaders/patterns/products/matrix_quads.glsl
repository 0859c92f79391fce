// Matrices of 16 x 16 whose elements are numbered by invocations, eight for each, as they lie in memory: sums, then a left operand, by its
// product with the unit matrix; and sums of 32 products of which each has as many bits as FLOAT32 keeps. dmlvk/trials/matrix_trial.py looks whether they lie in quads (cooperative_quads.glsl).

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
    STORE_SUMS(lines, 0u, sums, 4u) \
    SUBGROUP_BARRIER \
    fours_numbers[(BASE_WORD(numbers) >> 2u) + (first) + LANE] = lines[LANE]; \
    fours_numbers[(BASE_WORD(numbers) >> 2u) + (first) + 32u + LANE] = lines[32u + LANE]; \
    SUBGROUP_BARRIER

void main() {
    vec4 upper = vec4(int(LANE) * 8 + ivec4(0, 1, 2, 3));
    vec4 lower = vec4(int(LANE) * 8 + ivec4(4, 5, 6, 7));
    SUMS sums;
    SUMS_OF_ELEMENTS(sums, upper, lower)
    STORE_MATRIX(sums, 0u)
    uint one = LANE % 2u == 0u ? 0x3c00u : 0x3c000000u; // FLOAT16
    uvec4 own = uvec4(0u);
    own[LANE / 2u % 4u] = one;
    if (LANE < 16u) { // a row of the unit matrix
        lines[2u * LANE] = LANE < 8u ? own : uvec4(0u);
        lines[2u * LANE + 1u] = LANE < 8u ? uvec4(0u) : own;
    }
    SUBGROUP_BARRIER
    RIGHT_FLOATS unit;
    LOAD_RIGHT_FLOATS(unit, lines, 0u, BY_ROWS, 2u)
    LEFT_FLOATS left;
    LEFT_OF_ELEMENTS(left, upper, lower)
    sums = filled_with(0.0);
    sums = matrices_product_plus(left, unit, sums);
    STORE_MATRIX(sums, 64u)
    // 255 * 2047 * 2^-24 but for one, which is 255 * 2^-24, by a denormal.
    vec4 largest = vec4(255.0);
    LEFT_OF_ELEMENTS(left, largest, largest)
    lines[LANE] = uvec4(0x07ff07ffu);
    SUBGROUP_BARRIER
    LOAD_RIGHT_FLOATS(unit, lines, 0u, BY_COLUMNS, 2u)
    sums = filled_with(0.0);
    sums = matrices_product_plus(left, unit, sums);
    SUBGROUP_BARRIER
    lines[LANE] = uvec4(LANE % 2u == 0u ? 0x07ff0001u : 0x07ff07ffu, 0x07ff07ffu, 0x07ff07ffu, 0x07ff07ffu);
    SUBGROUP_BARRIER
    LOAD_RIGHT_FLOATS(unit, lines, 0u, BY_COLUMNS, 2u)
    sums = matrices_product_plus(left, unit, sums);
    STORE_MATRIX(sums, 128u)
}
