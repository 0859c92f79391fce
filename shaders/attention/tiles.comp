// CACHED_ATTENTION for many queries: the results of tiles of 64 rows, with the bits of attention_segments.glsl.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "composed/attention_tiles.glsl"
