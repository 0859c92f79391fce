// Words that are zero, four for each invocation.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "clearing.glsl"
