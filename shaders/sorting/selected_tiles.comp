// TOP_K, TOP_K1: the first elements of long tiles of rows.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "rows/selected_tiles.glsl"
