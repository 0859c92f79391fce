// TOP_K, TOP_K1: values and indices.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "rows/ordered_results.glsl"
