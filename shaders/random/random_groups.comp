// RANDOM_GENERATOR: numbers of Philox 4x32-10.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/random_groups.glsl"
