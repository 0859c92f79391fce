#version 450
#extension GL_GOOGLE_include_directive : require

// CONVOLUTION of tensors whose channels lie behind one another, by matrices that subgroups hold together.
#include "products/matrix_channels.glsl"
