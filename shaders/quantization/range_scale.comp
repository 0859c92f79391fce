// DYNAMIC_QUANTIZE_LINEAR: the scale and the zero point that follow from the smallest and the largest element.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/range_scale.glsl"
