// NONZERO_COORDINATES: the coordinates of what is not zero.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "movement/nonzero_coordinates.glsl"
