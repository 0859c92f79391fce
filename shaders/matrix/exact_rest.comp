#version 450
#extension GL_GOOGLE_include_directive : require

// Results of such products that are computed one by one.
#include "products/exact_rest.glsl"
