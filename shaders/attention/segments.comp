// CACHED_ATTENTION: what queries make of a segment of 256 keys, or of all segments in turn.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "composed/attention_segments.glsl"
