// ROI_ALIGN_GRAD: which outputs of a region have some of each row and each column of the input, and by what weight.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "windows/region_weights.glsl"
