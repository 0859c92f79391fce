// A trial of FLOAT32 arithmetic: dmlvk/arithmetic_trial.py.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "arithmetic_trial.glsl"
