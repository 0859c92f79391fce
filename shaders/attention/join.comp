// CACHED_ATTENTION, last: what attention_segments.glsl made of each segment is joined, in the order of the segments.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "composed/attention_join.glsl"
