// CACHED_ATTENTION, where scores or shares are an output.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "composed/attention_shown.glsl"
