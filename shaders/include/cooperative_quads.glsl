// Elements of the matrices of cooperative_floats.glsl, where a device deals them out as follows, sums and left operands alike: an invocation
// has eight, four of the row LANE / 4 and four of the row eight below it; in each, those of column 2 * (LANE % 4) and the next one, and
// those eight columns behind. So a row lies in four neighbouring invocations, and sums become a left operand where they are.
// dmlvk/trials/matrix_trial.py looks whether a device does so. tests/operators/cooperative_quads.glsl does the same without such matrices.
//
// Included behind cooperative_floats.glsl.
#ifndef COOPERATIVE_QUADS_GLSL
#define COOPERATIVE_QUADS_GLSL
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

layout(constant_id = 1006) const bool MATRICES_LIE_IN_QUADS = false;

spirv_instruction(id = 81) float element_of(SUMS sums, spirv_literal int index); // OpCompositeExtract
spirv_instruction(id = 82) SUMS with_element(float element, SUMS sums, spirv_literal int index); // OpCompositeInsert
spirv_instruction(id = 82) LEFT_FLOATS with_half(float16_t element, LEFT_FLOATS floats, spirv_literal int index);
spirv_instruction(id = 80) LEFT_FLOATS left_filled_with(float16_t component); // OpCompositeConstruct
spirv_instruction(id = 82) RIGHT_FLOATS with_right_half(float16_t element, RIGHT_FLOATS floats, spirv_literal int index);
spirv_instruction(id = 80) RIGHT_FLOATS right_filled_with(float16_t component); // OpCompositeConstruct

// The row and the column of an element: of the upper row or the lower one, and which of its four.
#define QUAD_ROW(is_lower) (LANE / 4u + (is_lower) * 8u)
#define QUAD_COLUMN(each) (LANE % 4u * 2u + ((each) & 1u) + ((each) >> 1u) * 8u)

#define ELEMENTS_OF(sums, upper, lower) \
    upper = vec4(element_of(sums, 0), element_of(sums, 1), element_of(sums, 2), element_of(sums, 3)); \
    lower = vec4(element_of(sums, 4), element_of(sums, 5), element_of(sums, 6), element_of(sums, 7));
#define SUMS_OF_ELEMENTS(sums, upper, lower) \
    sums = filled_with(upper.x); \
    sums = with_element(upper.y, sums, 1); \
    sums = with_element(upper.z, sums, 2); \
    sums = with_element(upper.w, sums, 3); \
    sums = with_element(lower.x, sums, 4); \
    sums = with_element(lower.y, sums, 5); \
    sums = with_element(lower.z, sums, 6); \
    sums = with_element(lower.w, sums, 7);
// Numbers for all elements of the upper row, and of the lower one.
#if MATRIX_COLUMNS == 8
#define SUMS_OF_ROWS(sums, upper, lower) \
    sums = filled_with(upper); \
    sums = with_element(lower, sums, 2); \
    sums = with_element(lower, sums, 3);
#else
#define SUMS_OF_ROWS(sums, upper, lower) \
    sums = filled_with(upper); \
    sums = with_element(lower, sums, 4); \
    sums = with_element(lower, sums, 5); \
    sums = with_element(lower, sums, 6); \
    sums = with_element(lower, sums, 7);
#endif
#define LEFT_OF_ELEMENTS(left, upper, lower) \
    left = left_filled_with(float16_t(upper.x)); \
    left = with_half(float16_t(upper.y), left, 1); \
    left = with_half(float16_t(upper.z), left, 2); \
    left = with_half(float16_t(upper.w), left, 3); \
    left = with_half(float16_t(lower.x), left, 4); \
    left = with_half(float16_t(lower.y), left, 5); \
    left = with_half(float16_t(lower.z), left, 6); \
    left = with_half(float16_t(lower.w), left, 7);
// Of FLOAT16 pairs: each half of a row's four elements is a word.
#define LEFT_OF_PAIRS(left, upper, lower) \
    { \
        f16vec2 pairs_[4] = f16vec2[4](unpackFloat2x16(upper.x), unpackFloat2x16(upper.y), unpackFloat2x16(lower.x), unpackFloat2x16(lower.y)); \
        left = left_filled_with(pairs_[0].x); \
        left = with_half(pairs_[0].y, left, 1); \
        left = with_half(pairs_[1].x, left, 2); \
        left = with_half(pairs_[1].y, left, 3); \
        left = with_half(pairs_[2].x, left, 4); \
        left = with_half(pairs_[2].y, left, 5); \
        left = with_half(pairs_[3].x, left, 6); \
        left = with_half(pairs_[3].y, left, 7); \
    }

#if MATRIX_COLUMNS == 8
// Of a right matrix, a column of which lies in four neighbouring invocations: two pairs of rows 2 * (LANE % 4) and eight below.
#define RIGHT_OF_PAIRS(right, low, high) \
    { \
        f16vec2 low_ = unpackFloat2x16(low), high_ = unpackFloat2x16(high); \
        right = right_filled_with(low_.x); \
        right = with_right_half(low_.y, right, 1); \
        right = with_right_half(high_.x, right, 2); \
        right = with_right_half(high_.y, right, 3); \
    }
// The four elements that an invocation has of sums.
#define ELEMENTS(sums) vec4(element_of(sums, 0), element_of(sums, 1), element_of(sums, 2), element_of(sums, 3))
#define SUMS_OF(sums, elements) \
    sums = filled_with(elements.x); \
    sums = with_element(elements.y, sums, 1); \
    sums = with_element(elements.z, sums, 2); \
    sums = with_element(elements.w, sums, 3);
// A bit for each invocation.
#define BITS_OF_LANES(bits, condition) bits = subgroupBallot(condition).x;
#endif

// Of a number for the upper row and one for the lower row: the largest, or the sum, of the four invocations that have these rows.
#define LARGEST_OF_QUAD(numbers) \
    numbers = max(numbers, subgroupShuffleXor(numbers, 1u)); \
    numbers = max(numbers, subgroupShuffleXor(numbers, 2u));
#define SUM_OF_QUAD(numbers) \
    numbers += subgroupShuffleXor(numbers, 1u); \
    numbers += subgroupShuffleXor(numbers, 2u);

#endif
