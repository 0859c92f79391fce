// ROI_ALIGN_GRAD, OutputGradient: each element gathers its part of all regions' gradients.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "windows/region_gather.glsl"
