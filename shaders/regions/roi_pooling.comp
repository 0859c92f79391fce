// ROI_POOLING: the largest element of each bin of each region of interest.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "windows/roi_pooling.glsl"
