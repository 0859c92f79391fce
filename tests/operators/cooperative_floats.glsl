// What shaders/include/cooperative_floats.glsl offers, for devices without such matrices: each of 32 invocations has a row of the left
// matrix, eight columns of the right one, and the eight sums that follow from both.
#ifndef COOPERATIVE_FLOATS_GLSL
#define COOPERATIVE_FLOATS_GLSL

const uint SIDE = 16u;
#define BY_ROWS 0u
#define BY_COLUMNS 1u
#define SUBGROUP (gl_LocalInvocationID.x / 32u)
#define LANE (gl_LocalInvocationID.x % 32u)
#define SUBGROUP_BARRIER barrier();
#define OWN_ROW (gl_LocalInvocationID.x % 32u / 2u)
#define FIRST_OWN_COLUMN (gl_LocalInvocationID.x % 2u * 8u)

struct Left {
    float of_term[16];
};
struct Right { // of each term two vectors
    vec4 of_columns[32];
};
struct Sums {
    vec4 of_columns[2];
};
#define LEFT_FLOATS Left
#define RIGHT_FLOATS Right
#define SUMS Sums

Sums filled_with(float component) { return Sums(vec4[2](vec4(component), vec4(component))); }

#if OPERAND_BITS == 32 // bfloat16: the upper halves of FLOAT32
#define NUMBER_OF(pair, place) uintBitsToFloat((place) % 2u == 0u ? (pair) << 16u : (pair) & 0xffff0000u)
#else
#define NUMBER_OF(pair, place) unpackHalf2x16(pair)[(place) % 2u]
#endif
#define NUMBER_AT(array, at, pitch, line, place) NUMBER_OF(array[(at) + (line) * (pitch) + (place) / 8u][(place) / 2u % 4u], place)
#define NUMBER_IN(array, at, lines_are, pitch, row, column) \
    (lines_are == BY_ROWS ? NUMBER_AT(array, at, pitch, row, column) : NUMBER_AT(array, at, pitch, column, row))

// Loops have few turns, of which llvmpipe has 65535 for an invocation.
#define LOAD_LEFT_FLOATS(matrix, array, at, lines_are, pitch) \
    for (uint term = 0u; term < 16u; ++term) { \
        matrix.of_term[term] = NUMBER_IN(array, at, lines_are, pitch, OWN_ROW, term); \
    }
#define LOAD_RIGHT_FLOATS(matrix, array, at, lines_are, pitch) \
    for (uint each = 0u; each < 32u; ++each) { \
        uint column = FIRST_OWN_COLUMN + each % 2u * 4u; \
        matrix.of_columns[each] = vec4(NUMBER_IN(array, at, lines_are, pitch, each / 2u, column), \
            NUMBER_IN(array, at, lines_are, pitch, each / 2u, column + 1u), NUMBER_IN(array, at, lines_are, pitch, each / 2u, column + 2u), \
            NUMBER_IN(array, at, lines_are, pitch, each / 2u, column + 3u)); \
    }
#define STORE_SUMS(array, at, sums, pitch) \
    { \
        Sums own_sums = sums; \
        uint own_place = (at) + OWN_ROW * (pitch) + FIRST_OWN_COLUMN / 4u; \
        array[own_place] = floatBitsToUint(own_sums.of_columns[0]); \
        array[own_place + 1u] = floatBitsToUint(own_sums.of_columns[1]); \
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

#define LOAD_SUMS_OF_ROWS(sums, array, at) sums = filled_with(uintBitsToFloat(array[(at) + OWN_ROW / 4u][OWN_ROW % 4u]));

Sums matrices_product_plus(Left left, Right right, Sums sums)
{
    for (uint each = 0u; each < 32u; ++each) {
        precise vec4 product = left.of_term[each / 2u] * right.of_columns[each];
        precise vec4 next = sums.of_columns[each % 2u] + product;
        sums.of_columns[each % 2u] = next;
    }
    return sums;
}

#endif
