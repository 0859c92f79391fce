// DEPTH_TO_SPACE, SPACE_TO_DEPTH and other copies that make lines of which every second or fourth element lies side by side elsewhere.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "movement/interleaved.glsl"
