// What shaders/include/cooperative_bytes.glsl offers, for devices without such matrices: each of 32 invocations has two rows of the left
// matrix, four columns of the right one, and the eight sums that follow from both.
#ifndef COOPERATIVE_BYTES_GLSL
#define COOPERATIVE_BYTES_GLSL

const uint SIDE = 16u;
#define SUBGROUP (gl_LocalInvocationID.x / 32u)
#define LANE (gl_LocalInvocationID.x % 32u)
#define SUBGROUP_BARRIER barrier();
#define OWN_ROW(half_) (LANE / 4u + (half_) * 8u)
#define OWN_COLUMN(each) (LANE % 4u * 4u + (each))

struct Left { // eight words of four terms of the upper row, then those of the lower one
    uint words[16];
};
struct Right { // of four columns
    uint words[32];
};
struct Integers {
    ivec4 of_rows[2];
};
struct Floats {
    vec4 of_rows[2];
};
#define LEFT_BYTES Left
#define RIGHT_BYTES Right
#define INTEGERS Integers
#define FLOATS Floats

#define LOAD_LEFT_BYTES(matrix, array, at, pitch) \
    for (uint each = 0u; each < 16u; ++each) { \
        matrix.words[each] = array[(at) + OWN_ROW(each / 8u) * (pitch) + each % 8u / 4u][each % 4u]; \
    }
#define LOAD_RIGHT_BYTES(matrix, array, at, pitch) \
    for (uint each = 0u; each < 32u; ++each) { \
        matrix.words[each] = array[(at) + OWN_COLUMN(each / 8u) * (pitch) + each % 8u / 4u][each % 4u]; \
    }

int four_products(uint a, uint b)
{
    ivec4 left = bitfieldExtract(ivec4(int(a) << 24, int(a) << 16, int(a) << 8, int(a)), 24, 8);
    ivec4 right = bitfieldExtract(ivec4(int(b) << 24, int(b) << 16, int(b) << 8, int(b)), 24, 8);
    ivec4 products = left * right;
    return products.x + products.y + products.z + products.w;
}

Integers product_plus(Left left, Right right, Integers sums)
{
    for (uint word = 0u; word < 8u; ++word) {
        for (uint each = 0u; each < 8u; ++each) {
            sums.of_rows[each / 4u][each % 4u] += four_products(left.words[each / 4u * 8u + word], right.words[each % 4u * 8u + word]);
        }
    }
    return sums;
}
#define BYTES_PRODUCT_PLUS(left, right, sums) product_plus(left, right, sums)

Integers integers_filled_with(int component) { return Integers(ivec4[2](ivec4(component), ivec4(component))); }
Floats floats_filled_with(float component) { return Floats(vec4[2](vec4(component), vec4(component))); }
Floats floats_of(Integers integers) { return Floats(vec4[2](vec4(integers.of_rows[0]), vec4(integers.of_rows[1]))); }
Floats sum_of(Floats a, Floats b)
{
    precise vec4 upper = a.of_rows[0] + b.of_rows[0];
    precise vec4 lower = a.of_rows[1] + b.of_rows[1];
    return Floats(vec4[2](upper, lower));
}
Floats product_of(Floats a, Floats b)
{
    precise vec4 upper = a.of_rows[0] * b.of_rows[0];
    precise vec4 lower = a.of_rows[1] * b.of_rows[1];
    return Floats(vec4[2](upper, lower));
}

#define ROW_NUMBER(array, at, row) uintBitsToFloat(array[(at) + (row) / 4u][(row) % 4u])
#define LOAD_FLOATS_OF_ROWS(floats, array, at) \
    floats = Floats(vec4[2](vec4(ROW_NUMBER(array, at, OWN_ROW(0u))), vec4(ROW_NUMBER(array, at, OWN_ROW(1u)))));
#define LOAD_FLOATS_OF_COLUMNS(floats, array, at) \
    floats = Floats(vec4[2](uintBitsToFloat(array[(at) + LANE % 4u]), uintBitsToFloat(array[(at) + LANE % 4u])));
#define STORE_INTEGERS(array, at, integers, pitch) \
    { \
        Integers own_integers = integers; \
        array[(at) + OWN_ROW(0u) * (pitch) + LANE % 4u] = uvec4(own_integers.of_rows[0]); \
        array[(at) + OWN_ROW(1u) * (pitch) + LANE % 4u] = uvec4(own_integers.of_rows[1]); \
    }
#define STORE_FLOATS(array, at, floats, pitch) \
    { \
        Floats own_floats = floats; \
        array[(at) + OWN_ROW(0u) * (pitch) + LANE % 4u] = floatBitsToUint(own_floats.of_rows[0]); \
        array[(at) + OWN_ROW(1u) * (pitch) + LANE % 4u] = floatBitsToUint(own_floats.of_rows[1]); \
    }

#endif
