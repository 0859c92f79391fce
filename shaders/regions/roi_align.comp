// ROI_ALIGN, ROI_ALIGN1: the average or the largest of the samples of each output.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "windows/roi_align.glsl"
