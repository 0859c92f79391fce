// Products of packed operands (packed_operand.glsl) as 32-bit integers, less their zero points: exact modulo 2^32, in any order.
//
// With x and y for the zero points of a row and a column, sum((a - x) (b - y)) = sum(a b) - x sum(b) - y sum(a) + terms x y: zero points
// cost nothing for each term.
//
// The compile script passes CONVOLUTION (0 or 1), TILE_ROWS, TILE_COLUMNS, INVOCATIONS and VECTORS.
#extension GL_EXT_control_flow_attributes : enable

#define LANES 4
#include "buffers.glsl"

layout(local_size_x = INVOCATIONS) in;

BUFFER(0, left)
BUFFER(1, right)
BUFFER(2, left_sums)
BUFFER(3, right_sums)
BUFFER(4, output)

#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#define OPERAND uint8
#define OPERAND_BITS 8
#define RESULT_BITS 32
#define PARALLEL 2u
#define SEGMENTS_COME 1u
#define WRITES_TOTALS false
layout(constant_id = 2) const bool HAS_ZEROS = false;

layout(push_constant) uniform Parameters {
    uint base_left, base_right, base_left_sums, base_right_sums, base_output;
#include "products/matrix_parameters.glsl"
} parameters;

#define base_addend base_left

#include "datatypes.glsl"
#include "products/matrix_batch.glsl"

#define PADDING 0x80000000u
uint operand(uint bits) { return bits; }

#include "products/matrix_operands.glsl"

// Vectors of 16 terms in a line, of which a tile takes VECTORS at once.
uint line_vectors() { return (parameters.terms + 16u * VECTORS - 1u) / (16u * VECTORS) * VECTORS; }

// What a work group computes: where its lines begin among those of the operands, and its batch.
struct Position {
    uint number, row, column;
};

// Tiles that run at the same time form blocks of BAND tiles downwards, which share what they read.
#define BAND 8u
Position position_of(uint group) {
    uint tiles = parameters.row_tiles * parameters.column_tiles;
    uint number = group / tiles;
    uint rest = group - number * tiles;
    uint band = rest / (BAND * parameters.column_tiles);
    uint within = rest - band * (BAND * parameters.column_tiles);
    uint height = min(BAND, parameters.row_tiles - band * BAND);
    return Position(number, (band * BAND + within % height) * TILE_ROWS, within / height * TILE_COLUMNS);
}

// A line's sum and its zero point.
uvec2 left_sum(Position position, uint row) {
    return pairs_left_sums[(BASE_WORD(left_sums) >> 1u) + position.number * parameters.row_tiles * TILE_ROWS + row];
}
uvec2 right_sum(Position position, uint column) {
    return pairs_right_sums[(BASE_WORD(right_sums) >> 1u) + position.number * parameters.column_tiles * TILE_COLUMNS + column];
}

uint less_zeros(uint sum, uvec2 left, uvec2 right) {
    return sum - left.y * right.x - right.y * left.x + parameters.terms * left.y * right.y;
}
