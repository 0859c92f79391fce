#version 450
#extension GL_GOOGLE_include_directive : require

// Products and convolutions of 8-bit integers.
#include "products/integer_products.glsl"
