// NONZERO_COORDINATES: how many come before each segment.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "movement/prefix_numbers.glsl"
