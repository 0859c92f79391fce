// Products of matrices and convolutions of 8-bit integers, less their zero points, as 32-bit integers: exact modulo 2^32, in any order.
//
// Each invocation computes a block of BLOCK x BLOCK results; neighbouring invocations compute neighbouring columns.
//
// The compile script passes CONVOLUTION (0 or 1), LEFT and OPERAND, the data types of the left and the right operand (int8 or uint8).
#extension GL_EXT_control_flow_attributes : enable

#include "datatypes.glsl"

#define LANES 4
#include "buffers.glsl"

#define BLOCK 4
#define INVOCATIONS 64
layout(local_size_x = INVOCATIONS) in;

// Where there is no zero point, something else is bound in its place, and not read.
BUFFER(0, left)
BUFFER(1, right)
BUFFER(2, addend) // the left operand's zero points
BUFFER(3, zero)   // the right operand's
BUFFER(4, output)

#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#define OPERAND_BITS 8
#define RESULT_BITS 32
#define SEGMENT 1024u
#define PARALLEL 2u
#define SEGMENTS_COME 1u
#define WRITES_TOTALS false
layout(constant_id = 2) const bool HAS_LEFT_ZERO = false;
layout(constant_id = 3) const bool HAS_RIGHT_ZERO = false;

layout(push_constant) uniform Parameters {
    uint base_left, base_right, base_addend, base_zero, base_output;
#include "products/matrix_parameters.glsl"
} parameters;

// From one column's zero point to the next one's. (A product has this in the place of Alpha; a convolution's input has one for all.)
#if CONVOLUTION
#define ZERO_COLUMN 0u
#else
#define ZERO_COLUMN parameters.alpha
#endif

#include "products/matrix_batch.glsl"

#define PADDING 0x80000000u // which no element is
uint operand(uint bits) { return bits; }

#include "products/matrix_operands.glsl"

void main() {
    WORK_GROUP(group)
    uint tiles_of_one = parameters.row_tiles * parameters.column_tiles;
    uint tile_number = group % tiles_of_one;
    uint first_row = tile_number % parameters.row_tiles * BLOCK;
    uint own_column = tile_number / parameters.row_tiles * (BLOCK * INVOCATIONS) + index_in_group();
    uint batches = parameters.work_items / tiles_of_one;
    Batch batch = batch_at(group / tiles_of_one, batches, 0u);
    Column columns[BLOCK];
    uint right_zeros[BLOCK];
    [[unroll]] for (uint j = 0u; j < BLOCK; ++j) {
        uint column = min(own_column + j * INVOCATIONS, parameters.columns - 1u);
        columns[j] = column_at(batch, column);
        right_zeros[j] = 0u;
        if (HAS_RIGHT_ZERO) { right_zeros[j] = LOAD(OPERAND, words_zero, BASE(8, zero) + column * ZERO_COLUMN); }
    }
    uint left_zeros[BLOCK];
    uint sums[BLOCK * BLOCK];
    [[unroll]] for (uint i = 0u; i < BLOCK; ++i) {
        left_zeros[i] = 0u;
        if (HAS_LEFT_ZERO) {
            left_zeros[i] = LOAD(LEFT, words_addend, addend_index(batch, min(first_row + i, parameters.rows - 1u), 0u));
        }
        [[unroll]] for (uint j = 0u; j < BLOCK; ++j) {
            sums[i * BLOCK + j] = 0u;
        }
    }
    uint end = min(parameters.end_segment * SEGMENT, parameters.terms);
    for (uint term = parameters.first_segment * SEGMENT; term < end; ++term) {
        uint b[BLOCK];
        [[unroll]] for (uint j = 0u; j < BLOCK; ++j) {
            uint bits = right_bits(columns[j], term);
            b[j] = bits == PADDING ? 0u : bits - right_zeros[j];
        }
        [[unroll]] for (uint i = 0u; i < BLOCK; ++i) {
            uint row = min(first_row + i, parameters.rows - 1u);
            uint a = LOAD(LEFT, words_left, left_index(batch, row, term)) - left_zeros[i];
            [[unroll]] for (uint j = 0u; j < BLOCK; ++j) {
                sums[i * BLOCK + j] += a * b[j];
            }
        }
    }
    [[unroll]] for (uint i = 0u; i < BLOCK; ++i) {
        [[unroll]] for (uint j = 0u; j < BLOCK; ++j) {
            uint row = first_row + i;
            uint column = own_column + j * INVOCATIONS;
            if (row < parameters.rows && column < parameters.columns) {
                uint index = output_index(batch, row, column);
                uint earlier = parameters.first_segment == 0u ? 0u : words_output[index];
                words_output[index] = earlier + sums[i * BLOCK + j];
            }
        }
    }
}
