// ROI_ALIGN_GRAD, OutputROIGradient: sums over parts of a region's outputs.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "windows/region_slopes.glsl"
