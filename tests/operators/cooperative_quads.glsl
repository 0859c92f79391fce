// What shaders/include/cooperative_quads.glsl offers, for devices without such matrices: invocations tell one another by shared memory.
#ifndef COOPERATIVE_QUADS_GLSL
#define COOPERATIVE_QUADS_GLSL

layout(constant_id = 1006) const bool MATRICES_LIE_IN_QUADS = false;

shared float elements_of_left[INVOCATIONS * 8];
shared vec2 numbers_of_rows[INVOCATIONS];

#define ELEMENTS_OF(sums, upper, lower) \
    { \
        Sums own_sums = sums; \
        upper = own_sums.of_columns[0]; \
        lower = own_sums.of_columns[1]; \
    }
#define SUMS_OF_ELEMENTS(sums, upper, lower) sums = Sums(vec4[2](upper, lower));
#define SUMS_OF_ROWS(sums, upper, lower) sums = Sums(vec4[2](vec4(upper), vec4(lower)));
#define ROUNDED_TO_HALF(number) unpackHalf2x16(packHalf2x16(vec2(number, 0.0))).x
#define LEFT_OF_ELEMENTS(left, upper, lower) \
    barrier(); \
    for (uint each = 0u; each < 4u; ++each) { \
        elements_of_left[SUBGROUP * 256u + QUAD_ROW(0u) * 16u + QUAD_COLUMN(each)] = ROUNDED_TO_HALF(upper[each]); \
        elements_of_left[SUBGROUP * 256u + QUAD_ROW(1u) * 16u + QUAD_COLUMN(each)] = ROUNDED_TO_HALF(lower[each]); \
    } \
    barrier(); \
    for (uint each = 0u; each < 32u; ++each) { \
        left.of_rows[each] = elements_of_left[SUBGROUP * 256u + QUAD_ROW(each / 16u) * 16u + each % 16u]; \
    }
#define LEFT_OF_PAIRS(left, upper, lower) \
    { \
        vec4 upper_ = vec4(unpackHalf2x16(upper.x), unpackHalf2x16(upper.y)); \
        vec4 lower_ = vec4(unpackHalf2x16(lower.x), unpackHalf2x16(lower.y)); \
        LEFT_OF_ELEMENTS(left, upper_, lower_) \
    }

shared vec2 elements_of_right[INVOCATIONS * 2];
#define RIGHT_OF_PAIRS(right, low, high) \
    barrier(); \
    elements_of_right[SUBGROUP * 64u + LANE] = unpackHalf2x16(low); \
    elements_of_right[SUBGROUP * 64u + 32u + LANE] = unpackHalf2x16(high); \
    barrier(); \
    for (uint term = 0u; term < 16u; ++term) { \
        uint own_ = SUBGROUP * 64u + term / 8u * 32u + LANE % 4u * 8u + term % 8u / 2u; \
        right.of_columns[term] = vec4(elements_of_right[own_][term % 2u], elements_of_right[own_ + 4u][term % 2u], 0.0, 0.0); \
    }

#define ELEMENTS(sums) vec4((sums).of_columns[0].xy, (sums).of_columns[1].xy)
#define SUMS_OF(sums, elements) sums = Sums(vec4[2](vec4(elements.xy, 0.0, 0.0), vec4(elements.zw, 0.0, 0.0)));
shared uint bits_of_lanes[INVOCATIONS / 32];
#define BITS_OF_LANES(bits, condition) \
    barrier(); \
    if (LANE == 0u) { bits_of_lanes[SUBGROUP] = 0u; } \
    barrier(); \
    atomicOr(bits_of_lanes[SUBGROUP], uint(condition) << LANE); \
    barrier(); \
    bits = bits_of_lanes[SUBGROUP];

#define OF_QUAD(numbers, each) numbers_of_rows[gl_LocalInvocationID.x / 4u * 4u + each]
#define TELL_QUAD(numbers) \
    barrier(); \
    numbers_of_rows[gl_LocalInvocationID.x] = numbers; \
    barrier();
#define LARGEST_OF_QUAD(numbers) \
    TELL_QUAD(numbers) \
    numbers = max(max(OF_QUAD(numbers, 0u), OF_QUAD(numbers, 1u)), max(OF_QUAD(numbers, 2u), OF_QUAD(numbers, 3u)));
#define SUM_OF_QUAD(numbers) \
    TELL_QUAD(numbers) \
    numbers = OF_QUAD(numbers, 0u) + OF_QUAD(numbers, 1u) + (OF_QUAD(numbers, 2u) + OF_QUAD(numbers, 3u));

#endif
