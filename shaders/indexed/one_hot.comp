// ONE_HOT: OnValue where the place along the axis is the one that the index means, OffValue elsewhere.
#include "movement/gather_operands.glsl"

UNIT unit_at(Offsets offsets) {
    uint hot = choice_or_none(load_index(offsets.index), CHOICES_0);
    return LOAD_UNIT(sparse, offsets.position == hot ? CHOICE_STRIDE_0 : 0u);
}

#include "movement/gathering.glsl"
