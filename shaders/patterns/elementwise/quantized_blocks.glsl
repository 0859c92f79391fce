// Results made of an element each, with a scale and a zero point that count for a block of elements.
//
// Output axes are gone through in the order of the output's memory, axis 0 the innermost: where the output is one run of
// neighbouring elements (OUTPUT_PACKED), an invocation makes the elements of a whole 32-bit word; otherwise one element.
// A zero point that is absent has something else bound in its place, which is not read.
//
// The operator's file defines before
//   NUMBER, NUMBER_BITS      the floats' data type and its width; INTEGER, INTEGER_BITS  the integers'
//   OUTPUT, OUTPUT_BITS      which of both the output has
// and behind
//   uint result_of(Places places)     the bits of an element of the output
#ifndef QUANTIZED_BLOCKS_GLSL
#define QUANTIZED_BLOCKS_GLSL

#include "nibbles.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_source; // where operands begin in their buffers, in words
    uint base_scale, base_zero, base_output, work_items;
    uint elements; // of the output
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, source)
BUFFER(1, scale)
BUFFER(2, zero)
BUFFER(3, output)

layout(constant_id = 2) const bool OUTPUT_PACKED = false;
layout(constant_id = 3) const bool HAS_ZERO = false;

// How many elements an axis of the output has; what a step along it, or from block to block, adds to the place in each operand.
#define OUTPUT_AXIS(axis, first_id) \
    layout(constant_id = first_id) const uint SIZE_##axis = 1u; \
    layout(constant_id = first_id + 1) const uint SOURCE_STEP_##axis = 0u; \
    layout(constant_id = first_id + 2) const uint SCALE_BLOCK_##axis = 1u; \
    layout(constant_id = first_id + 3) const uint SCALE_STEP_##axis = 0u; \
    layout(constant_id = first_id + 4) const uint ZERO_BLOCK_##axis = 1u; \
    layout(constant_id = first_id + 5) const uint ZERO_STEP_##axis = 0u; \
    layout(constant_id = first_id + 6) const uint OUTPUT_STEP_##axis = 0u;
OUTPUT_AXIS(0, 4) OUTPUT_AXIS(1, 11) OUTPUT_AXIS(2, 18) OUTPUT_AXIS(3, 25)
OUTPUT_AXIS(4, 32) OUTPUT_AXIS(5, 39) OUTPUT_AXIS(6, 46) OUTPUT_AXIS(7, 53)

// The elements of operands. Those of 4 bits are found by their words: an index from the start of a buffer might not fit into 32 bits.
#define NUMBER_AT(name, offset) LOAD(NUMBER, words_##name, BASE(NUMBER_BITS, name) + (offset))
#if INTEGER_BITS == 4
#define INTEGER_AT(name, offset) CONCATENATE(UNPACKED_, INTEGER)(words_##name[BASE_WORD(name) + ((offset) >> 3u)], offset)
#else
#define INTEGER_AT(name, offset) LOAD(INTEGER, words_##name, BASE(INTEGER_BITS, name) + (offset))
#endif

struct Offsets {
    uint source, scale, zero, result;
};

uint result_of(Offsets offsets);

#define MOVE(axis, coordinate) \
    offsets.source += coordinate * SOURCE_STEP_##axis; \
    offsets.scale += (coordinate / SCALE_BLOCK_##axis) * SCALE_STEP_##axis; \
    offsets.zero += (coordinate / ZERO_BLOCK_##axis) * ZERO_STEP_##axis; \
    offsets.result += coordinate * OUTPUT_STEP_##axis;

// Where the operands of an element of the output lie, by its number in the order of memory.
Offsets offsets_of(uint element) {
    Offsets offsets = Offsets(0u, 0u, 0u, 0u);
    uint rest = element;
    MOVE_BY_EIGHT(rest)
    return offsets;
}

#define ELEMENT_RESULT(value, element) uint value = result_of(offsets_of(element));
#include "packed_results.glsl"

void main() {
    WORK_ITEM(item)
    STORE_IF_PACKED(item)
    Offsets offsets = offsets_of(item);
    uint value = result_of(offsets);
#if OUTPUT_BITS == 4
    uint bits[1];
    bits[0] = 0u;
    uint lane = offsets.result & 7u;
    INSERT_4(bits, lane, value);
    store_bits(BASE_WORD(output) + (offsets.result >> 3u), bits[0], VALUE_MASK_4 << BIT_POSITION_4(lane));
#else
    STORE(OUTPUT_BITS, words_output, BASE(OUTPUT_BITS, output) + offsets.result, value);
#endif
}

#endif
