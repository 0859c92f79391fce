#version 450
#extension GL_GOOGLE_include_directive : require

// Products of rows with matrices of floats that each row chooses.
#include "products/expert_floats.glsl"
