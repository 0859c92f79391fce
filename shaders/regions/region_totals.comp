// ROI_ALIGN_GRAD, OutputROIGradient: the sums of all parts, scaled.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "windows/region_totals.glsl"
