// TOP_K, TOP_K1: lists of two tiles made one.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "rows/merged_lists.glsl"
