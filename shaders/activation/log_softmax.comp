// ACTIVATION_LOG_SOFTMAX, ACTIVATION_LOG_SOFTMAX1: f(x) = ln(e^x / sum of e^x over the row).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "softmax.glsl"

#define NAN_RANK ABOVE_ALL
#define BASIS float
#define basis_of(peak) (peak)
#define KEPT Double
#define kept_of(x, peak) difference_of(x, peak)
#define term_of(difference) log_softmax_term_of(difference)
#define SUM_WITHOUT_PEAK
#define ROW LogarithmOfTotal
#define row_of(sum) logarithm_of_total(sum)
#define result_of(difference, logarithm) log_softmax_f32(difference, logarithm)
#include "along_axes.glsl"
