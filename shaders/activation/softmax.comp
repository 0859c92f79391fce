// ACTIVATION_SOFTMAX, ACTIVATION_SOFTMAX1: f(x) = e^x / sum of e^x over the row.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "softmax.glsl"

#define NAN_RANK ABOVE_ALL
#define BASIS SoftmaxBasis
#define basis_of(peak) softmax_basis_of(peak)
#define KEPT Power
#define kept_of(x, basis) softmax_power_of(x, basis)
#define term_of(power) softmax_term_of(power)
#define ROW Double
#define row_of(sum) softmax_row_of(sum)
#define result_of(power, reciprocal) softmax_f32(power, reciprocal)
#include "along_axes.glsl"
