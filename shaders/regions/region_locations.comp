// ROI_ALIGN, ROI_ALIGN1, ROI_ALIGN_GRAD: where the samples of each region lie.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "windows/region_locations.glsl"
