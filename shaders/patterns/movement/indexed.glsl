// How operators go through elements whose movement an operand of indices tells: what they have in common.
//
// Three operands lie along the same axes, of which the host folds what it can:
//   dense    what is gone through element by element: the output of what gathers, the updates of what scatters
//   index    the indices; those of an element are INDICES numbers, INDEX_STEP elements apart
//   sparse   what the indices point into: from its place along the axes, each index moves by a stride of its own
// A stride is 0 where an operand does not lie along an axis. `position` is the place along the one axis that the operator
// names, for those that compare it with an index.
//
// The compile script passes
//   UNIT_BITS   the width of what is moved at once: that of the elements, or, where neighbours move together and lie so in
//               memory, of several: up to 128
#include "axes.glsl"

ALL_STRIDES(dense, 12)
ALL_STRIDES(index, 20)
ALL_STRIDES(sparse, 28)
ALL_STRIDES(position, 36)

// How many places an index chooses from, and how far apart they are.
#define CHOICE(n, size_id, stride_id) \
    layout(constant_id = size_id) const uint CHOICES_##n = 1u; \
    layout(constant_id = stride_id) const uint CHOICE_STRIDE_##n = 0u;
CHOICE(0, 44, 52) CHOICE(1, 45, 53) CHOICE(2, 46, 54) CHOICE(3, 47, 55)
CHOICE(4, 48, 56) CHOICE(5, 49, 57) CHOICE(6, 50, 58) CHOICE(7, 51, 59)
layout(constant_id = 60) const uint INDICES = 1u;
layout(constant_id = 61) const uint INDEX_STEP = 1u;
layout(constant_id = 62) const bool INDEX_IS_PAIR = false; // of 64 bits
layout(constant_id = 63) const bool INDEX_IS_SIGNED = false;

#include "movement/index_choices.glsl"

Index load_index(uint offset) {
    uint first = BASE_WORD(index) + (INDEX_IS_PAIR ? 2u * offset : offset);
    uint low = words_index[first];
    uint high = INDEX_IS_SIGNED ? uint(int(low) >> 31) : 0u;
    if (INDEX_IS_PAIR) { high = words_index[first + 1u]; }
    return Index(low, high);
}

// Where an element lies in each operand, in units.
struct Offsets {
    uint dense, index, sparse, position;
};

#define MOVE(axis, coordinate) \
    offsets.dense += coordinate * STRIDE_dense_##axis; \
    offsets.index += coordinate * STRIDE_index_##axis; \
    offsets.sparse += coordinate * STRIDE_sparse_##axis; \
    offsets.position += coordinate * STRIDE_position_##axis;
Offsets offsets_of(uint element) {
    Offsets offsets = Offsets(0u, 0u, 0u, 0u);
    MOVE_BY_EIGHT(element)
    return offsets;
}

#include "movement/units.glsl"
