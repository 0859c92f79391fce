// CACHED_ATTENTION, first: new keys and values go behind those that are in the caches; queries and keys are rotated by the angles
#version 450
#extension GL_GOOGLE_include_directive : require
#include "composed/attention_append.glsl"
