// ACTIVATION_LOG_SOFTMAX, ACTIVATION_LOG_SOFTMAX1: f(x) = ln(e^x / sum of e^x over the row).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "softmax.glsl"

#define NAN_RANK ABOVE_ALL
#define SUM_WITHOUT_PEAK
#define LOWEST_DIFFERENCE LOWEST_LOGARITHM
#define TERM_EXPONENT LOGARITHM_EXPONENT
#define term_from(difference, basis) term_of(difference, basis, TERM_EXPONENT)
#define FIRST_SUM 0.0
#define with_next_term(sum, term) with_term(sum, term)
#define FIRST_SUM_OF_SUMS 0.0
#define sum_complete(sum, first) sum_of_terms(sum, first)
#define row_words_of(sum, basis) logarithm_row_words(sum, basis)
#define ROW LogarithmRow
#define row_of(words, basis, has_far) logarithm_row(words, basis)
#define result_of(x, term, basis, row) log_softmax_f32(x, basis, row)
#define has_rare_results(has_far, row) (has_far || has_small_logarithm(row))
#define rare_result_of(result, x, basis, row) rare_log_softmax_f32(result, x, basis, row)
#include "along_axes.glsl"
