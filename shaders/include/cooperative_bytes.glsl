// Matrices of signed bytes that a subgroup of 32 invocations holds together: left ones of 16 x 32, right ones of 32 x 16, their sums as
// 32-bit integers, and these as FLOAT32. Arrays in shared memory are of uvec4, by which places and distances from line to line count, too.
//
// Included at the head of a shader, before anything else is declared. tests/operators/cooperative_bytes.glsl does the same without such
// matrices.
#ifndef COOPERATIVE_BYTES_GLSL
#define COOPERATIVE_BYTES_GLSL
#include "cooperative_matrix.glsl"

const uint SIDE = 16u;
const uint DEPTH = 32u;
#define SUBGROUP gl_SubgroupID
#define LANE gl_SubgroupInvocationID
#define SUBGROUP_BARRIER subgroupBarrier();
#define LEFT_BYTES COOPERATIVE_MATRIX(SIGNED_BYTE, SIDE, DEPTH, AS_LEFT)
#define RIGHT_BYTES COOPERATIVE_MATRIX(SIGNED_BYTE, DEPTH, SIDE, AS_RIGHT)
#define INTEGERS COOPERATIVE_MATRIX(SIGNED_WORD, SIDE, SIDE, AS_SUM)
#define FLOATS COOPERATIVE_MATRIX(SINGLE_FLOAT, SIDE, SIDE, AS_SUM)
COOPERATIVE_LOADS_AND_STORES(LEFT_BYTES, RIGHT_BYTES, INTEGERS)
spirv_instruction(id = 4459)
INTEGERS product_plus(LEFT_BYTES left, RIGHT_BYTES right, INTEGERS sums, spirv_literal int signed_components);
#define ALL_ARE_SIGNED 0xf
spirv_instruction(id = 80) INTEGERS integers_filled_with(int component); // OpCompositeConstruct
spirv_instruction(id = 80) FLOATS floats_filled_with(float component);
spirv_instruction(id = 111) FLOATS floats_of(INTEGERS integers); // OpConvertSToF
spirv_instruction(id = 129) FLOATS sum_of(FLOATS floats, FLOATS further); // OpFAdd
spirv_instruction(id = 133) FLOATS product_of(FLOATS floats, FLOATS factors); // OpFMul: element by element
spirv_instruction(id = 4457) FLOATS load_floats(spirv_by_reference uvec4 first, int layout_of_memory, uint stride, spirv_literal int access, uint scope);
spirv_instruction(id = 4458)
void store_floats(spirv_by_reference uvec4 first, FLOATS floats, int layout_of_memory, uint stride, spirv_literal int access, uint scope);

// Loads of lines of shared memory: rows of a left matrix, columns of a right one.
#define LOAD_LEFT_BYTES(matrix, array, at, pitch) matrix = load_left(array[at], BY_ROWS, pitch, SEES_WORK_GROUP, OF_WORK_GROUP);
#define LOAD_RIGHT_BYTES(matrix, array, at, pitch) matrix = load_right(array[at], BY_COLUMNS, pitch, SEES_WORK_GROUP, OF_WORK_GROUP);
#define BYTES_PRODUCT_PLUS(left, right, sums) product_plus(left, right, sums, ALL_ARE_SIGNED)
// A number for each row, the same in all of its columns, or the other way round: four numbers of each vector.
#define LOAD_FLOATS_OF_ROWS(floats, array, at) floats = load_floats(array[at], BY_COLUMNS, 0u, SEES_WORK_GROUP, OF_WORK_GROUP);
#define LOAD_FLOATS_OF_COLUMNS(floats, array, at) floats = load_floats(array[at], BY_ROWS, 0u, SEES_WORK_GROUP, OF_WORK_GROUP);
#define STORE_INTEGERS(array, at, integers, pitch) store_sums(array[at], integers, BY_ROWS, pitch, SEEN_BY_WORK_GROUP, OF_WORK_GROUP);
#define STORE_FLOATS(array, at, floats, pitch) store_floats(array[at], floats, BY_ROWS, pitch, SEEN_BY_WORK_GROUP, OF_WORK_GROUP);

#endif
