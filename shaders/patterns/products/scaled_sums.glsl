// Results made of a sum each, with scales, a zero point and a bias of their row or column.
//
// Output axes are gone through in the order of the output's memory, axis 0 the innermost: where the output is one run of
// neighbouring elements (OUTPUT_PACKED), an invocation makes the elements of a whole 32-bit word; otherwise one element.
// Operands that are absent have something else bound in their place, which is not read.
//
// The operator's file defines behind
//   uint result_of(Places places)     the bits of an element of the output
// for which it has the data type OUTPUT, its width, and Places.

#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_sums; // where operands begin in their buffers, in words
    uint base_left_scale, base_right_scale, base_scale, base_zero, base_bias, base_output, work_items;
    uint elements; // of the output
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, sums)
BUFFER(1, left_scale)
BUFFER(2, right_scale)
BUFFER(3, scale) // the output's
BUFFER(4, zero)
BUFFER(5, bias)
BUFFER(6, output)

layout(constant_id = 2) const bool OUTPUT_PACKED = false;
layout(constant_id = 3) const bool HAS_ZERO = false;
layout(constant_id = 4) const bool HAS_BIAS = false;

// What a step along an axis of the output adds to the place in each operand, in elements.
#define OUTPUT_AXIS(axis, first_id) \
    layout(constant_id = first_id) const uint SIZE_##axis = 1u; \
    layout(constant_id = first_id + 1) const uint SUMS_STEP_##axis = 0u; \
    layout(constant_id = first_id + 2) const uint LEFT_SCALE_STEP_##axis = 0u; \
    layout(constant_id = first_id + 3) const uint RIGHT_SCALE_STEP_##axis = 0u; \
    layout(constant_id = first_id + 4) const uint SCALE_STEP_##axis = 0u; \
    layout(constant_id = first_id + 5) const uint ZERO_STEP_##axis = 0u; \
    layout(constant_id = first_id + 6) const uint BIAS_STEP_##axis = 0u; \
    layout(constant_id = first_id + 7) const uint OUTPUT_STEP_##axis = 0u;
OUTPUT_AXIS(0, 5) OUTPUT_AXIS(1, 13) OUTPUT_AXIS(2, 21) OUTPUT_AXIS(3, 29)

struct Positions {
    uint sums, left_scale, right_scale, scale, zero, bias, result;
};

uint result_of(Positions positions);

#define MOVE(axis, coordinate) \
    positions.sums += coordinate * SUMS_STEP_##axis; \
    positions.left_scale += coordinate * LEFT_SCALE_STEP_##axis; \
    positions.right_scale += coordinate * RIGHT_SCALE_STEP_##axis; \
    positions.scale += coordinate * SCALE_STEP_##axis; \
    positions.zero += coordinate * ZERO_STEP_##axis; \
    positions.bias += coordinate * BIAS_STEP_##axis; \
    positions.result += coordinate * OUTPUT_STEP_##axis;

// Where the operands of an element of the output lie, by its number in the order of memory.
Positions positions_of(uint element) {
    Positions positions = Positions(0u, 0u, 0u, 0u, 0u, 0u, 0u);
    uint rest = element;
    MOVE_BY(rest, 0) MOVE_BY(rest, 1) MOVE_BY(rest, 2)
    MOVE(3, rest)
    return positions;
}

#define ELEMENT_RESULT(value, element) uint value = result_of(positions_of(element));
#include "packed_results.glsl"

void main() {
    WORK_ITEM(item)
    STORE_IF_PACKED(item)
    Positions positions = positions_of(item);
    uint value = result_of(positions);
    STORE(OUTPUT_BITS, words_output, BASE(OUTPUT_BITS, output) + positions.result, value);
}
