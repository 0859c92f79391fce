// RESAMPLE_GRAD, RESAMPLE_GRAD1: gradients of any resampling.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "windows/gradient_sums.glsl"

#define OPERATION(number) gradient_of(number)
#include "elementwise/each_offset.glsl"
