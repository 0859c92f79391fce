// TOP_K, TOP_K1: the first elements of rows that are one tile each.
#version 450
#extension GL_GOOGLE_include_directive : require
#define WRITES_RESULTS
#include "rows/selected_tiles.glsl"
