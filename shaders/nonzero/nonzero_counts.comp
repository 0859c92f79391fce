// NONZERO_COORDINATES: how many elements of each segment are not zero.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "movement/nonzero_counts.glsl"
