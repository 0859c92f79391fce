// Matrices of 16 x 16 FLOAT16 that a subgroup holds together, and their sums in FLOAT32. Arrays in shared memory are of uvec4, by which
// places and distances from line to line count, too.
//
// Included at the head of a shader, before anything else is declared. tests/operators/cooperative_halves.glsl does the same without such
// matrices.
#ifndef COOPERATIVE_HALVES_GLSL
#define COOPERATIVE_HALVES_GLSL
#include "cooperative_matrix.glsl"

const uint SIDE = 16u;
#define SUBGROUP gl_SubgroupID
#define LEFT_HALVES COOPERATIVE_MATRIX(HALF_FLOAT, SIDE, SIDE, AS_LEFT)
#define RIGHT_HALVES COOPERATIVE_MATRIX(HALF_FLOAT, SIDE, SIDE, AS_RIGHT)
#define SUMS COOPERATIVE_MATRIX(SINGLE_FLOAT, SIDE, SIDE, AS_SUM)

spirv_instruction(id = 4457)
LEFT_HALVES load_left(spirv_by_reference uvec4 first, int layout_of_memory, uint stride, spirv_literal int access, uint scope);
spirv_instruction(id = 4457)
RIGHT_HALVES load_right(spirv_by_reference uvec4 first, int layout_of_memory, uint stride, spirv_literal int access, uint scope);
spirv_instruction(id = 4458)
void store_sums(spirv_by_reference uvec4 first, SUMS sums, int layout_of_memory, uint stride, spirv_literal int access, uint scope);
spirv_instruction(id = 80) SUMS filled_with(float component); // OpCompositeConstruct
spirv_instruction(id = 4459) SUMS matrices_product_plus(LEFT_HALVES left, RIGHT_HALVES right, SUMS sums);

// Loads and stores of shared memory: lines are rows or columns, of sums rows.
#define LOAD_LEFT_HALVES(matrix, array, at, lines_are, pitch) \
    matrix = load_left(array[at], lines_are, pitch, SEES_WORK_GROUP, OF_WORK_GROUP);
#define LOAD_RIGHT_HALVES(matrix, array, at, lines_are, pitch) \
    matrix = load_right(array[at], lines_are, pitch, SEES_WORK_GROUP, OF_WORK_GROUP);
#define STORE_SUMS(array, at, sums, pitch) store_sums(array[at], sums, BY_ROWS, pitch, SEEN_BY_WORK_GROUP, OF_WORK_GROUP);

#endif
