// SCATTER, SCATTER_ND: the number of each place's last update.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "movement/marking.glsl"
