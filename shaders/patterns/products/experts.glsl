// Products of rows with matrices that each row chooses: those of kernels for one matrix, whose weights begin
// where the matrix of a work group's row begins. All matrices lie one behind the other.
//
// Included before block_products.glsl, whose kernels have one row for each work group (BLOCK_ROWS 1).

#include "arithmetic.glsl"
#include "datatypes.glsl"
#define LANES 4
#define HAS_PARTS // the numbers of matrices are bound in their place
#include "buffers.glsl"

layout(constant_id = 30) const uint EXPERTS = 1u;
// Words from one matrix to the next, of weights, scales and zeros.
layout(constant_id = 31) const uint PACKED_EXPERT = 0u;
layout(constant_id = 32) const uint SCALE_EXPERT = 0u;
layout(constant_id = 33) const uint ZERO_EXPERT = 0u;

uint own_expert; // of the work group's row

#define FIRST_WORD(name) (OPERANDS_HAVE_OFFSETS ? parameters.base_##name : 0u)
#define FIRST_WORD_OF_left FIRST_WORD(left)
#define FIRST_WORD_OF_packed (FIRST_WORD(packed) + own_expert * PACKED_EXPERT)
#define FIRST_WORD_OF_scale (FIRST_WORD(scale) + own_expert * SCALE_EXPERT)
#define FIRST_WORD_OF_zero (FIRST_WORD(zero) + own_expert * ZERO_EXPERT)
#define FIRST_WORD_OF_addend FIRST_WORD(addend)
#define FIRST_WORD_OF_parts FIRST_WORD(parts)
#define FIRST_WORD_OF_output FIRST_WORD(output)
#undef BASE_WORD
#define BASE_WORD(name) FIRST_WORD_OF_##name

// To be called first: which matrix it is.
#define FIND_EXPERT \
    { \
        uint row_ = min(work_group_index() % parameters.row_tiles, parameters.rows - 1u); \
        own_expert = min(words_parts[BASE_WORD(parts) + row_], EXPERTS - 1u); \
    }
