// CACHED_ATTENTION, before: keys or values of the past go into the present cache, zeros behind what is appended.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "composed/attention_carry_over.glsl"
