// ACTIVATION_SOFTMAX, ACTIVATION_SOFTMAX1: f(x) = e^x / sum of e^x over the row.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elementwise_operands.glsl"
#include "softmax.glsl"

#define NAN_RANK ABOVE_ALL
#define TERMS_ARE_KEPT
#define LOWEST_DIFFERENCE LOWEST_SHARE
#define TERM_EXPONENT SHARE_EXPONENT
#define term_from(difference, basis) share_term_of(difference, basis)
#define DIFFERENCES_ARE_ELEMENTS
#define FIRST_SUM FIRST_SHARE
#define with_next_term(sum, term) with_share(sum, term)
#define with_near_term(sum, term) with_near_share(sum, term)
#define FIRST_SUM_OF_SUMS FIRST_SUM_OF_SHARES
#define sum_complete(sum, first) sum_of_shares(sum, first)
#define row_words_of(sum, basis) softmax_row_words(sum)
#define ROW SoftmaxRow
#define row_of(words, basis, has_far) softmax_row(words, has_far)
#define result_of(x, term, basis, row) softmax_f32(term, row)
#define has_rare_results(has_far, row) (has_far)
#define rare_result_of(result, x, basis, row) unscaled_share(result)
#include "along_axes.glsl"
