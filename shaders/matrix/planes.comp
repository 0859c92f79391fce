#version 450
#extension GL_GOOGLE_include_directive : require

// Convolutions whose windows overlap in planes.
#include "products/matrix_planes.glsl"
