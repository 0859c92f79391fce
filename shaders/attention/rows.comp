// CACHED_ATTENTION: what a few queries of a token make of a segment of 256 keys.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "composed/attention_rows.glsl"
