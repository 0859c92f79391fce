// ACTIVATION_SOFTMAX, ACTIVATION_SOFTMAX1: f(x) = e^x / sum of e^x over the row.
#include "elementwise/elementwise_operands.glsl"
#include "softmax.glsl"

#define NAN_RANK ABOVE_ALL
#define TERMS_ARE_KEPT
#define basis_of_peak(peak) share_basis_of(peak)
#define is_far_below(x, basis) is_further_below(x, basis.peak, FAR_SHARE)
#define is_near_below(x, basis) is_within(x, basis.peak, NEAR_SHARE)
#define bounded(x, difference, basis) bounded_difference(x, difference, basis.lowest, basis.nothing)
#define term_from(difference, basis) share_term_of(difference, basis)
#define FIRST_SUM FIRST_SHARE
#define with_next_term(sum, term) with_share(sum, term)
#define with_terms(sum, terms) with_share(with_share(with_share(with_share(sum, terms[0]), terms[1]), terms[2]), terms[3])
#define with_near_terms(sum, terms) \
    with_near_share(with_near_share(with_near_share(with_near_share(sum, terms[0]), terms[1]), terms[2]), terms[3])
#define FIRST_SUM_OF_SUMS FIRST_SUM_OF_SHARES
#define sum_complete(sum, first) sum_of_shares(sum, first)
#define row_words_of(sum, basis) softmax_row_words(sum)
#define ROW SoftmaxRow
#define row_of(words, basis, has_far) softmax_row(words, has_far)
#define result_of(difference, term, row) softmax_f32(term, row)
#define has_slow_path_results(has_far, row) (has_far)
#define slow_path_result_of(result, x, basis, row) unscaled_share(result)
#include "rows/along_axes.glsl"
