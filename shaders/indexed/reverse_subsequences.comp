// REVERSE_SUBSEQUENCES: the first elements of each sequence in opposite order, as many as its length says.
#include "movement/gather_operands.glsl"

UNIT unit_at(Offsets offsets) {
    Index given = load_index(offsets.index);
    uint count = given.high != 0u ? CHOICES_0 : min(given.low, CHOICES_0);
    uint position = offsets.position < count ? count - 1u - offsets.position : offsets.position;
    return LOAD_UNIT(sparse, offsets.sparse + position * CHOICE_STRIDE_0);
}

#include "movement/gathering.glsl"
