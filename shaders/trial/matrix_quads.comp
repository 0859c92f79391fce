// A trial of how a device deals out cooperative matrices: dmlvk/trials/matrix_trial.py.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "products/matrix_quads.glsl"
