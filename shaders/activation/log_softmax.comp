// ACTIVATION_LOG_SOFTMAX, ACTIVATION_LOG_SOFTMAX1: f(x) = ln(e^x / sum of e^x over the row).
#include "elementwise/elementwise_operands.glsl"
#include "log_softmax.glsl"

#define NAN_RANK ABOVE_ALL
#define SUM_WITHOUT_PEAK
#define basis_of_peak(peak) logarithm_basis_of(peak)
#define is_far_below(x, basis) is_far_logarithm(x, basis)
#define is_near_below(x, basis) is_near_logarithm(x, basis)
#define bounded(x, difference, basis) bounded_logarithm(x, difference, basis)
#define term_from(difference, basis) logarithm_term_of(difference, basis)
#define FIRST_SUM 0.0
#define with_next_term(sum, term) with_logarithm_term(sum, term)
#define with_terms(sum, terms) with_logarithm_terms(sum, terms)
#define with_near_terms(sum, terms) with_near_logarithm_terms(sum, terms)
#define FIRST_SUM_OF_SUMS 0.0
#define sum_complete(sum, first) sum_of_terms(sum, first)
#define row_words_of(sum, basis) logarithm_row_words(sum, basis)
#define ROW LogarithmRow
#define row_of(words, basis, has_far) logarithm_row(words, basis)
#define result_of(difference, term, row) log_softmax_f32(difference, row)
#define has_slow_path_results(has_far, row) (has_far || has_small_logarithm(row))
#define slow_path_result_of(result, x, basis, row) slow_path_log_softmax_f32(result, x, basis, row)
#include "rows/along_axes.glsl"
