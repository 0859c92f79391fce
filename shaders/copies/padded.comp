// PADDING with a constant: the input in the middle, the value around it, in one go.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "movement/padded.glsl"
