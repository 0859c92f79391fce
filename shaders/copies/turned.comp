// Transpositions of narrow elements whose lines do not begin at words.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "movement/turned.glsl"
