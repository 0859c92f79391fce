// ELEMENT_WISE_CLIP_GRAD: f(x, gradient) = 0 if x <= Min or x >= Max, else the gradient.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "comparison.glsl"

#define OPERATION(x, gradient) \
    (FORM(is_greater_or_equal, INPUT_0)(ATTRIBUTE_MIN, x) || FORM(is_greater_or_equal, INPUT_0)(x, ATTRIBUTE_MAX) \
        ? VALUE(OUTPUT)(0u) \
        : (gradient))
#include "elementwise.glsl"
