// What shaders/include/cooperative_floats.glsl offers, for devices without such matrices: each of 32 invocations has two rows of the left
// matrix, four columns of the right one, and the eight sums that follow from both, as cooperative_quads.glsl says.
#ifndef COOPERATIVE_FLOATS_GLSL
#define COOPERATIVE_FLOATS_GLSL
#ifdef SUBGROUP_INVOCATIONS // others than 32, or other matrices
#include "cooperative_rows.glsl"
#else

#define SUBGROUP_INVOCATIONS 32
#ifndef MATRIX_ROWS
#define MATRIX_ROWS 16
#define MATRIX_COLUMNS 16
#endif
const uint LEFT_SIDE = 16u;
const uint RIGHT_SIDE = MATRIX_COLUMNS; // of 8, the elements behind are none
const uint SIDE = 16u;
#define BY_ROWS 0u
#define BY_COLUMNS 1u
#define SUBGROUP (gl_LocalInvocationID.x / 32u)
#define LANE (gl_LocalInvocationID.x % 32u)
#define SUBGROUP_BARRIER barrier();
#define QUAD_ROW(is_lower) (LANE / 4u + (is_lower) * 8u)
#define QUAD_COLUMN(each) (LANE % 4u * 2u + (each) % 2u + (each) / 2u * 8u)

struct Left { // 16 terms of the upper row, then those of the lower one
    float of_rows[32];
};
struct Right { // of each term
    vec4 of_columns[16];
};
struct Sums { // of the upper row, and of the lower one
    vec4 of_columns[2];
};
#define LEFT_FLOATS Left
#define RIGHT_FLOATS Right
#define SUMS Sums

Sums filled_with(float component) { return Sums(vec4[2](vec4(component), vec4(component))); }

#if OPERAND_BITS == 32 // bfloat16: the upper halves of FLOAT32
#define NUMBER_OF_PAIR(pair, index) uintBitsToFloat((index) % 2u == 0u ? (pair) << 16u : (pair) & 0xffff0000u)
#else
#define NUMBER_OF_PAIR(pair, index) unpackHalf2x16(pair)[(index) % 2u]
#endif
#define NUMBER_AT(array, at, pitch, line, index) NUMBER_OF_PAIR(array[(at) + (line) * (pitch) + (index) / 8u][(index) / 2u % 4u], index)
#define NUMBER_IN(array, at, lines_are, pitch, row, column) \
    (lines_are == BY_ROWS ? NUMBER_AT(array, at, pitch, row, column) : NUMBER_AT(array, at, pitch, column, row))

// Loops have few turns, of which llvmpipe has 65535 for an invocation.
#define LOAD_LEFT_FLOATS(matrix, array, at, lines_are, pitch) \
    for (uint each = 0u; each < 32u; ++each) { \
        matrix.of_rows[each] = NUMBER_IN(array, at, lines_are, pitch, QUAD_ROW(each / 16u), each % 16u); \
    }
#define LOAD_RIGHT_FLOATS(matrix, array, at, lines_are, pitch) \
    for (uint term = 0u; term < 16u; ++term) { \
        matrix.of_columns[term] = vec4(NUMBER_IN(array, at, lines_are, pitch, term, QUAD_COLUMN(0u)), \
            NUMBER_IN(array, at, lines_are, pitch, term, QUAD_COLUMN(1u)), NUMBER_IN(array, at, lines_are, pitch, term, QUAD_COLUMN(2u)), \
            NUMBER_IN(array, at, lines_are, pitch, term, QUAD_COLUMN(3u))); \
    }
#define STORE_SUMS(array, at, sums, pitch) \
    { \
        Sums own_sums = sums; \
        for (uint each = 0u; each < 8u; ++each) { \
            uint own_column = QUAD_COLUMN(each % 4u); \
            if (own_column >= RIGHT_SIDE) { continue; } \
            array[(at) + QUAD_ROW(each / 4u) * (pitch) + own_column / 4u][own_column % 4u] = floatBitsToUint(own_sums.of_columns[each / 4u][each % 4u]); \
        } \
    }

Sums sum_of(Sums sums, Sums further)
{
    precise vec4 low = sums.of_columns[0] + further.of_columns[0];
    precise vec4 high = sums.of_columns[1] + further.of_columns[1];
    return Sums(vec4[2](low, high));
}

Sums product_of_sums(Sums sums, Sums factors)
{
    return Sums(vec4[2](sums.of_columns[0] * factors.of_columns[0], sums.of_columns[1] * factors.of_columns[1]));
}

#define ROW_NUMBER(array, at, row) uintBitsToFloat(array[(at) + (row) / 4u][(row) % 4u])
#define LOAD_SUMS_OF_ROWS(sums, array, at) \
    sums = Sums(vec4[2](vec4(ROW_NUMBER(array, at, QUAD_ROW(0u))), vec4(ROW_NUMBER(array, at, QUAD_ROW(1u)))));

Sums matrices_product_plus(Left left, Right right, Sums sums)
{
    for (uint each = 0u; each < 32u; ++each) {
        precise vec4 product = left.of_rows[each] * right.of_columns[each % 16u];
        precise vec4 next = sums.of_columns[each / 16u] + product;
        sums.of_columns[each / 16u] = next;
    }
    return sums;
}

#endif
#endif
