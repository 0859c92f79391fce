// CACHED_ATTENTION, at first, where caches keep a window or tokens are filled up: where the keys of each sequence lie.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "composed/attention_lengths.glsl"
