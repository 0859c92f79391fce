// TOP_K, TOP_K1: sorted lists of short tiles of rows.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "rows/ranked_tiles.glsl"
