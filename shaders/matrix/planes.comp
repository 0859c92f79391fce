#version 450
#extension GL_GOOGLE_include_directive : require

// Convolutions whose windows overlap in planes.
#include "matrix_planes.glsl"
