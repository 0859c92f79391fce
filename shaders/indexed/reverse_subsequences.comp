// REVERSE_SUBSEQUENCES: the first elements of each sequence in opposite order, as many as its length says.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "movement/gather_operands.glsl"

UNIT unit_at(Places places)
{
    Index given = load_index(places.index);
    uint count = given.high != 0u ? CHOICES_0 : min(given.low, CHOICES_0);
    uint position = places.position < count ? count - 1u - places.position : places.position;
    return LOAD_UNIT(sparse, places.sparse + position * CHOICE_STRIDE_0);
}

#include "movement/gathering.glsl"
