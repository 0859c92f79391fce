// Matrices that a subgroup holds together and multiplies by one instruction: SPV_KHR_cooperative_matrix, by the numbers of its types and
// instructions, as glslang knows no words for it before its version 13.
//
// A type cannot be named to glslang as the parameter of another type: the number that stands in its place is looked up in the compiled
// module (dmlvk/spirv/cooperative_types.py).
//
// Included at the head of a shader, before anything else is declared.
#ifndef COOPERATIVE_MATRIX_GLSL
#define COOPERATIVE_MATRIX_GLSL
#pragma use_vulkan_memory_model // which the extension asks for
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_spirv_intrinsics : require

// The numbers that stand for component types.
const int SIGNED_BYTE = 0x5f080001;
const int SIGNED_WORD = 0x5f200001;
const int HALF_FLOAT = 0x5f100002;
const int SINGLE_FLOAT = 0x5f200002;
const int BRAIN_FLOAT = 0x5f100003;

const uint OF_SUBGROUP = 3u;
const uint OF_WORK_GROUP = 2u;
const uint AS_LEFT = 0u;
const uint AS_RIGHT = 1u;
const uint AS_SUM = 2u;

// How a matrix lies in memory: rows behind one another, or columns.
#define BY_ROWS 0
#define BY_COLUMNS 1

// The capability CooperativeMatrixKHR; Int8 or Float16 come with the component's type.
#define COOPERATIVE_MATRIX(component, rows, columns, use) \
    spirv_type(extensions = ["SPV_KHR_cooperative_matrix"], capabilities = [6022], id = 4456, component, OF_SUBGROUP, rows, columns, use)

// The same of SPV_KHR_bfloat16, with the capabilities BFloat16TypeKHR and BFloat16CooperativeMatrixKHR.
#define COOPERATIVE_MATRIX_OF_BRAIN_FLOATS(rows, columns, use) \
    spirv_type(extensions = ["SPV_KHR_cooperative_matrix", "SPV_KHR_bfloat16"], capabilities = [6022, 5116, 5118], id = 4456, \
        BRAIN_FLOAT, OF_SUBGROUP, rows, columns, use)

// What other invocations of the work group have stored is seen, and what is stored is seen by them: NonPrivatePointer, with
// MakePointerVisible or MakePointerAvailable.
#define SEES_WORK_GROUP 0x30
#define SEEN_BY_WORK_GROUP 0x28

// Loads and stores of three types of matrices, for arrays of uvec4: OpCooperativeMatrixLoadKHR and OpCooperativeMatrixStoreKHR.
#define COOPERATIVE_LOADS_AND_STORES(LEFT, RIGHT, SUMS) \
    spirv_instruction(id = 4457) \
    LEFT load_left(spirv_by_reference uvec4 first, int layout_of_memory, uint stride, spirv_literal int access, uint scope); \
    spirv_instruction(id = 4457) \
    RIGHT load_right(spirv_by_reference uvec4 first, int layout_of_memory, uint stride, spirv_literal int access, uint scope); \
    spirv_instruction(id = 4458) \
    void store_sums(spirv_by_reference uvec4 first, SUMS sums, int layout_of_memory, uint stride, spirv_literal int access, uint scope);

#endif
