// CACHED_ATTENTION, where shares are an output: the largest score of each row, and the sum that shares are divided by.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "composed/attention_totals.glsl"
