// ACTIVATION_SOFTMAX, ACTIVATION_SOFTMAX1: f(x) = e^x / sum of e^x over the row.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "softmax.glsl"

#define NAN_RANK ABOVE_ALL
#define KEPT Power
#define kept_of(x, peak) power_of(difference_of(x, peak))
#define ROW Double
#define row_of(sum) reciprocal_of_total(sum)
#define result_of(power, reciprocal) softmax_f32(power, reciprocal)
#include "along_axes.glsl"
