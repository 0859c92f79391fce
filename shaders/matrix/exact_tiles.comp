#version 450
#extension GL_GOOGLE_include_directive : require

// Products of FLOAT32 by exact integers, as matrices that subgroups hold together.
#include "products/exact_tiles.glsl"
