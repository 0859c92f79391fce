// JOIN, or SPLIT, of several tensors in one launch.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "movement/parts.glsl"
