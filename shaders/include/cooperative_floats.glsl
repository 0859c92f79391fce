// Matrices of 16-bit numbers that a subgroup holds together, and their sums in FLOAT32. Arrays in shared memory are of uvec4, by which places
// and distances from line to line count, too. The numbers are FLOAT16 where operands are, and parts of FLOAT32 operands (bfloat16) where
// those are. Left ones are MATRIX_ROWS x 16, right ones 16 x MATRIX_COLUMNS, and a subgroup has SUBGROUP_INVOCATIONS: the compile script passes
// what is not 16, 16 and 32.
//
// Included at the head of a shader, before anything else is declared. tests/operators/cooperative_floats.glsl does the same without such
// matrices.
#ifndef COOPERATIVE_FLOATS_GLSL
#define COOPERATIVE_FLOATS_GLSL
#include "cooperative_matrix.glsl"

#ifndef SUBGROUP_INVOCATIONS
#define SUBGROUP_INVOCATIONS 32
#endif
#ifndef MATRIX_ROWS
#define MATRIX_ROWS 16
#define MATRIX_COLUMNS 16
#endif
const uint LEFT_SIDE = MATRIX_ROWS;
const uint RIGHT_SIDE = MATRIX_COLUMNS;
const uint SIDE = 16u; // terms of both
#define SUBGROUP gl_SubgroupID
#define LANE gl_SubgroupInvocationID
// What a subgroup has stored in shared memory is seen by all of it.
#define SUBGROUP_BARRIER subgroupBarrier();
#if OPERAND_BITS == 32
#define LEFT_FLOATS COOPERATIVE_MATRIX_OF_BRAIN_FLOATS(LEFT_SIDE, SIDE, AS_LEFT)
#define RIGHT_FLOATS COOPERATIVE_MATRIX_OF_BRAIN_FLOATS(SIDE, RIGHT_SIDE, AS_RIGHT)
#else
#define LEFT_FLOATS COOPERATIVE_MATRIX(HALF_FLOAT, LEFT_SIDE, SIDE, AS_LEFT)
#define RIGHT_FLOATS COOPERATIVE_MATRIX(HALF_FLOAT, SIDE, RIGHT_SIDE, AS_RIGHT)
#endif
#define SUMS COOPERATIVE_MATRIX(SINGLE_FLOAT, LEFT_SIDE, RIGHT_SIDE, AS_SUM)

COOPERATIVE_LOADS_AND_STORES(LEFT_FLOATS, RIGHT_FLOATS, SUMS)
spirv_instruction(id = 80) SUMS filled_with(float component); // OpCompositeConstruct
spirv_instruction(id = 129) SUMS sum_of(SUMS sums, SUMS further); // OpFAdd
spirv_instruction(id = 133) SUMS product_of_sums(SUMS sums, SUMS factors); // OpFMul: element by element
spirv_instruction(id = 4457) SUMS load_sums(spirv_by_reference uvec4 first, int layout_of_memory, uint stride, spirv_literal int access, uint scope);
spirv_instruction(id = 4459) SUMS matrices_product_plus(LEFT_FLOATS left, RIGHT_FLOATS right, SUMS sums);

// Loads and stores of shared memory: lines are rows or columns, of sums rows.
#define LOAD_LEFT_FLOATS(matrix, array, at, lines_are, pitch) \
    matrix = load_left(array[at], lines_are, pitch, SEES_WORK_GROUP, OF_WORK_GROUP);
#define LOAD_RIGHT_FLOATS(matrix, array, at, lines_are, pitch) \
    matrix = load_right(array[at], lines_are, pitch, SEES_WORK_GROUP, OF_WORK_GROUP);
// A number for each row, the same in all of its columns: four numbers of each vector.
#define LOAD_SUMS_OF_ROWS(sums, array, at) sums = load_sums(array[at], BY_COLUMNS, 0u, SEES_WORK_GROUP, OF_WORK_GROUP);
#define STORE_SUMS(array, at, sums, pitch) store_sums(array[at], sums, BY_ROWS, pitch, SEEN_BY_WORK_GROUP, OF_WORK_GROUP);

#endif
