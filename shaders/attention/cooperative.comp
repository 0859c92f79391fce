// MULTIHEAD_ATTENTION of FLOAT16 by matrices that subgroups hold together, for those who permit a device its own arithmetic.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "composed/attention_cooperative.glsl"
