// What shaders/include/cooperative_halves.glsl offers, for devices without such matrices: each of 32 invocations has a row of the left
// matrix, eight columns of the right one, and the eight sums that follow from both.
#ifndef COOPERATIVE_HALVES_GLSL
#define COOPERATIVE_HALVES_GLSL

const uint SIDE = 16u;
#define BY_ROWS 0u
#define BY_COLUMNS 1u
#define SUBGROUP (gl_LocalInvocationID.x / 32u)
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
#define LEFT_HALVES Left
#define RIGHT_HALVES Right
#define SUMS Sums

Sums filled_with(float component) { return Sums(vec4[2](vec4(component), vec4(component))); }

#define HALF_OF(array, at, pitch, line, place) \
    unpackHalf2x16(array[(at) + (line) * (pitch) + (place) / 8u][(place) / 2u % 4u])[(place) % 2u]
#define HALF_IN(array, at, lines_are, pitch, row, column) \
    (lines_are == BY_ROWS ? HALF_OF(array, at, pitch, row, column) : HALF_OF(array, at, pitch, column, row))

// Loops have few turns, of which llvmpipe has 65535 for an invocation.
#define LOAD_LEFT_HALVES(matrix, array, at, lines_are, pitch) \
    for (uint term = 0u; term < 16u; ++term) { \
        matrix.of_term[term] = HALF_IN(array, at, lines_are, pitch, OWN_ROW, term); \
    }
#define LOAD_RIGHT_HALVES(matrix, array, at, lines_are, pitch) \
    for (uint each = 0u; each < 32u; ++each) { \
        uint column = FIRST_OWN_COLUMN + each % 2u * 4u; \
        matrix.of_columns[each] = vec4(HALF_IN(array, at, lines_are, pitch, each / 2u, column), \
            HALF_IN(array, at, lines_are, pitch, each / 2u, column + 1u), HALF_IN(array, at, lines_are, pitch, each / 2u, column + 2u), \
            HALF_IN(array, at, lines_are, pitch, each / 2u, column + 3u)); \
    }
#define STORE_SUMS(array, at, sums, pitch) \
    { \
        Sums own_sums = sums; \
        uint own_place = (at) + OWN_ROW * (pitch) + FIRST_OWN_COLUMN / 4u; \
        array[own_place] = floatBitsToUint(own_sums.of_columns[0]); \
        array[own_place + 1u] = floatBitsToUint(own_sums.of_columns[1]); \
    }

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
