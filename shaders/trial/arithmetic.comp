// A trial of FLOAT32 arithmetic: dmlvk/trials/arithmetic_trial.py.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/arithmetic_trial.glsl"
