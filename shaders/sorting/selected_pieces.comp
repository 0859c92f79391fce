// TOP_K, TOP_K1: the first elements of long pieces of rows.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "selected_pieces.glsl"
