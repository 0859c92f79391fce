// RESIDUAL_NORMALIZATION: x = Input + Skip (+ Bias), x / sqrt(mean(x^2) + Epsilon) * Scale.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "rows/residual_normalization.glsl"
