// Products of few rows with matrices that a sum for each invocation would not keep a device busy with. A work group has BLOCK_COLUMNS
// columns of BLOCK_ROWS rows. All of its invocations compute products, of four terms and four columns each, and put them into shared
// memory, STAGE_TERMS of each sum; there an invocation for each sum adds them in their order, while what all load next is on its way.
//
// The compile script passes BLOCK_ROWS, BLOCK_COLUMNS (a multiple of 4), STAGE_TERMS (a multiple of 16 that divides a segment) and
// INVOCATIONS = STAGE_TERMS / 4 * BLOCK_COLUMNS / 4, at least BLOCK_ROWS * BLOCK_COLUMNS.
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#include "products/matrix.glsl"
#include "products/matrix_fours.glsl"
#define TILE_ROWS BLOCK_ROWS
#define TILE_COLUMNS BLOCK_COLUMNS
#include "products/matrix_groups.glsl"
#include "products/matrix_left_four.glsl"
#define TERMS_AT_ONCE 4
#define OWN_COLUMNS 4
#include "products/matrix_right_terms.glsl"

layout(local_size_x = INVOCATIONS) in;

#define FOURS (STAGE_TERMS / 4)
#define BLOCKS_ACROSS (BLOCK_COLUMNS / 4)
#define SUMS (BLOCK_ROWS * BLOCK_COLUMNS)
#define LINE (FOURS + 1) // odd: neighbouring sums' products lie in different banks

// A line of products for each sum, four terms to a word.
shared vec4 products[SUMS * LINE];
#if LOOKS_AT_DENORMALS
shared uint left_lowest, right_lowest;
#endif
#if OPERAND_BITS == 16
shared uint results[INVOCATIONS];
#endif
#define EXCHANGED(number) results[number]

#define LOAD_OPERANDS(term) \
    LOAD_RIGHT(term) \
    [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) { \
        left_loaded[row] = left_four(batch, min(position.first_row + row, parameters.rows - 1u), term, end); \
    }

void main() {
    WORK_GROUP(group)
    uint invocation = index_in_group();
    Position position = position_of(group);
    Batch batch = position.batch;
    // Neighbouring invocations load what lies side by side in memory. Across columns, eight neighbours have four fours of two blocks:
    // their products lie in different banks.
    uint four = RIGHT_ALONG_TERMS ? invocation % FOURS : invocation / (4u * BLOCKS_ACROSS) * 4u + invocation % 4u;
    uint block = RIGHT_ALONG_TERMS ? invocation / FOURS : invocation / 4u % BLOCKS_ACROSS;
    FIND_COLUMNS(position.first_column + 4u * block)
    Four loaded[4];
    Four left_loaded[BLOCK_ROWS];
    float right[16];
    vec4 own[BLOCK_ROWS * 4];
    for (uint segment = position.first_segment; segment < position.end_segment; ++segment) {
        uint first = segment * SEGMENT;
        uint end = min(first + SEGMENT, parameters.terms);
        LOOK_FROM_HERE
        float sum = 0.0;
        LOAD_OPERANDS(first + 4u * four)
        for (uint term = first; term < end; term += STAGE_TERMS) {
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uvec4 bits = operands_of(loaded[i], RIGHT_HAS_VECTORS);
                LOOK_AT(own_right_lowest, bits)
                [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                    right[LOADS_COLUMNS_AT_ONCE ? i * 4u + k : k * 4u + i] = uintBitsToFloat(bits[k]);
                }
            }
            [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                uvec4 bits = operands_of(left_loaded[row], LEFT_IS_VECTOR);
                LOOK_AT(own_left_lowest, bits)
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                        own[row * 4u + j][k] = rounded_product(uintBitsToFloat(bits[k]), right[k * 4u + j]);
                    }
                }
            }
            if (term + STAGE_TERMS < end) {
                LOAD_OPERANDS(term + STAGE_TERMS + 4u * four)
            }
            barrier(); // all sums are through with what was there
            [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    products[(row * BLOCK_COLUMNS + 4u * block + j) * LINE + four] = own[row * 4u + j];
                }
            }
            barrier();
            if (invocation < SUMS) {
                [[unroll]] for (uint i = 0u; i < FOURS; ++i) {
                    vec4 next = products[invocation * LINE + i];
                    [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                        sum = rounded_sum(sum, next[k]);
                    }
                }
            }
        }
        LOOK_BACK
        uint row = position.first_row + invocation / BLOCK_COLUMNS;
        uint column = position.first_column + invocation % BLOCK_COLUMNS;
        bool is_inside = invocation < SUMS && row < parameters.rows && column < parameters.columns;
#include "products/matrix_own_result.glsl"
        barrier(); // all have read the lowest
    }
}
