// A trial of FLOAT16 products: dmlvk/trials/half_trial.py.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise/half_products.glsl"
