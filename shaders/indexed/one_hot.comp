// ONE_HOT: OnValue where the place along the axis is the one that the index means, OffValue elsewhere.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "movement/gather_operands.glsl"

UNIT unit_at(Places places)
{
    uint hot = choice_or_none(load_index(places.index), CHOICES_0);
    return LOAD_UNIT(sparse, places.position == hot ? CHOICE_STRIDE_0 : 0u);
}

#include "movement/gathering.glsl"
