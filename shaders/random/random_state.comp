// RANDOM_GENERATOR: the state behind the numbers that were made.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/random_state.glsl"
