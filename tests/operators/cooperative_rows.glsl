// What shaders/include/cooperative_floats.glsl offers, for devices without such matrices and any size of them: each of a subgroup's invocations
// has a row of the left matrix, so many columns of the right one, and the sums that follow from both.
#ifndef COOPERATIVE_ROWS_GLSL
#define COOPERATIVE_ROWS_GLSL
#ifndef MATRIX_ROWS
#define MATRIX_ROWS 16
#define MATRIX_COLUMNS 16
#endif

const uint LEFT_SIDE = MATRIX_ROWS;
const uint RIGHT_SIDE = MATRIX_COLUMNS;
const uint SIDE = 16u;
#define BY_ROWS 0u
#define BY_COLUMNS 1u
#define SUBGROUP (gl_LocalInvocationID.x / SUBGROUP_INVOCATIONS)
#define LANE (gl_LocalInvocationID.x % SUBGROUP_INVOCATIONS)
#define SUBGROUP_BARRIER barrier();
#define FOURS (MATRIX_ROWS * MATRIX_COLUMNS / SUBGROUP_INVOCATIONS / 4) // of columns
#define OWN_ROW (LANE % LEFT_SIDE)
#define OWN_FOUR (LANE / LEFT_SIDE * FOURS)

struct Left {
    float of_row[16];
};
struct Right { // of each term
    vec4 of_columns[16 * FOURS];
};
struct Sums {
    vec4 of_columns[FOURS];
};
#define LEFT_FLOATS Left
#define RIGHT_FLOATS Right
#define SUMS Sums

Sums filled_with(float component)
{
    Sums sums;
    for (uint four = 0u; four < FOURS; ++four) {
        sums.of_columns[four] = vec4(component);
    }
    return sums;
}

#define HALF_AT(array, at, pitch, line, index) unpackHalf2x16(array[(at) + (line) * (pitch) + (index) / 8u][(index) / 2u % 4u])[(index) % 2u]
#define HALF_IN(array, at, lines_are, pitch, row, column) \
    (lines_are == BY_ROWS ? HALF_AT(array, at, pitch, row, column) : HALF_AT(array, at, pitch, column, row))

#define LOAD_LEFT_FLOATS(matrix, array, at, lines_are, pitch) \
    for (uint term = 0u; term < 16u; ++term) { \
        matrix.of_row[term] = HALF_IN(array, at, lines_are, pitch, OWN_ROW, term); \
    }
#define LOAD_RIGHT_FLOATS(matrix, array, at, lines_are, pitch) \
    for (uint four = 0u; four < 16u * FOURS; ++four) { \
        uint column = (OWN_FOUR + four % FOURS) * 4u; \
        matrix.of_columns[four] = vec4(HALF_IN(array, at, lines_are, pitch, four / FOURS, column), \
            HALF_IN(array, at, lines_are, pitch, four / FOURS, column + 1u), HALF_IN(array, at, lines_are, pitch, four / FOURS, column + 2u), \
            HALF_IN(array, at, lines_are, pitch, four / FOURS, column + 3u)); \
    }
#define STORE_SUMS(array, at, sums, pitch) \
    { \
        Sums own_sums = sums; \
        for (uint four = 0u; four < FOURS; ++four) { \
            array[(at) + OWN_ROW * (pitch) + OWN_FOUR + four] = floatBitsToUint(own_sums.of_columns[four]); \
        } \
    }
#define LOAD_SUMS_OF_ROWS(sums, array, at) sums = filled_with(uintBitsToFloat(array[(at) + OWN_ROW / 4u][OWN_ROW % 4u]));

Sums product_of_sums(Sums sums, Sums factors)
{
    for (uint four = 0u; four < FOURS; ++four) {
        sums.of_columns[four] *= factors.of_columns[four];
    }
    return sums;
}

Sums matrices_product_plus(Left left, Right right, Sums sums)
{
    for (uint each = 0u; each < 16u * FOURS; ++each) {
        precise vec4 product = left.of_row[each / FOURS] * right.of_columns[each];
        precise vec4 next = sums.of_columns[each % FOURS] + product;
        sums.of_columns[each % FOURS] = next;
    }
    return sums;
}

#endif
