// Copies between views, and fills of them: JOIN, SPLIT, SLICE and all that moves elements by sizes and attributes alone.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "movement/copies.glsl"
