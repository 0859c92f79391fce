// Products of few rows with packed weights, on GPUs: by exact integers or, where IS_CHUNKED is defined, chunk by chunk.
//
// Each invocation has a chunk of BLOCK_ROWS rows for the whole kernel: their integers, or terms, stay in its registers. It goes through
// GROUP_COLUMNS columns, and loads of each what its chunk meets there, so that neighbours load what is neighbouring. What chunks give is
// exchanged by shared memory, STAGE_COLUMNS columns at a time, and added in rising order.
//
// The compile script passes BLOCK_ROWS, AT_ONCE (columns whose weights are on their way at one time; half of STAGE_COLUMNS, or a part of
// that) and what packed_integers.glsl or packed_chunks.glsl is passed.
#ifndef IS_CHUNKED
#include "products/packed_integers.glsl"
#include "products/packed_planes.glsl"
#define MOST_HIGH 1u
#define CHUNK_HIGH 0u
#else
#include "products/packed_chunks.glsl"
#endif

layout(local_size_x = 256) in; // INVOCATIONS when a kernel is made

layout(constant_id = 38) const uint INVOCATIONS = 256u;
layout(constant_id = 39) const uint STAGE_COLUMNS = 2u;

// Segments that a work group computes beside one another.
layout(constant_id = 20) const uint SEGMENTS_BESIDE = 1u;
// Whether a chunk of a column can be loaded by vectors of 16 bytes.
layout(constant_id = 21) const bool PACKED_HAS_VECTORS = false;
layout(constant_id = 22) const uint GROUP_COLUMNS = 1u; // no more than MOST_COLUMNS, and even
// Whether all chunks are whole.
layout(constant_id = 23) const bool CHUNKS_ARE_WHOLE = false;

#define MOST_COLUMNS 64u
#ifdef IS_GATED
#define SIDES 2u
#define WEIGHTS_AT(form, side, index) ((side) == 1u ? form##_packed_up[BASE_WORD(packed_up) / FORM_WORDS_##form + (index)] : form##_packed[BASE_WORD(packed) / FORM_WORDS_##form + (index)])
#define SCALE_WORD(side, word) ((side) == 1u ? words_scale_up[BASE_WORD(scale_up) + (word)] : words_scale[BASE_WORD(scale) + (word)])
#define ZERO_WORD(side, word) ((side) == 1u ? words_zero_up[BASE_WORD(zero_up) + (word)] : words_zero[BASE_WORD(zero) + (word)])
#else
#define SIDES 1u
#define WEIGHTS_AT(form, side, index) form##_packed[BASE_WORD(packed) / FORM_WORDS_##form + (index)]
#define SCALE_WORD(side, word) words_scale[BASE_WORD(scale) + (word)]
#define ZERO_WORD(side, word) words_zero[BASE_WORD(zero) + (word)]
#endif
#define FORM_WORDS_words 1u
#define FORM_WORDS_fours 4u

#define PITCH (CHUNKS_OF_SEGMENT + 1u) // invocations that add different results read from different banks
#define STAGE_RESULTS (STAGE_COLUMNS * SIDES * BLOCK_ROWS)
#define MOST_SEGMENTS (INVOCATIONS / CHUNKS_OF_SEGMENT)
#define MOST_RESULTS (MOST_COLUMNS * SIDES * BLOCK_ROWS)
// While those of one stage are added, those of the next one are stored.
shared float values[2u * STAGE_RESULTS * MOST_SEGMENTS * PITCH];
shared float segment_sums[MOST_RESULTS * MOST_SEGMENTS];
shared float totals[MOST_RESULTS];
#define LINES (AT_ONCE * SIDES)

// How many words a load has, and how far columns lie apart.
#define LOAD_WORDS (PACKED_HAS_VECTORS && CHUNK_WORDS >= 4u ? 4u : 1u)
#define COLUMN_LOADS (PACKED_COLUMN / uint(WORD_TERMS) / LOAD_WORDS)

// An index of what columns have, from column to column; of those behind the last one, that of the last.
#define OF_COLUMN(range, step, number) min((range).x + (number) * (step), (range).y)
#define RANGE(index_of) uvec2(index_of(first_column), index_of(last_column))
#define PACKED_INDEX(column) (((column) * PACKED_COLUMN + term) / uint(WORD_TERMS) / LOAD_WORDS)
#define SCALE_INDEX(column) scale_index(column, term)
#define ZERO_INDEX(column) zero_index(column, term)
#define HIGH_INDEX(column) ((column) * PACKED_COLUMN / uint(WORD_TERMS) + high_word(term))
#define SCALE_OF_COLUMN(number) \
    (SCALE_COLUMN_BLOCK == 1u ? OF_COLUMN(scale_range, SCALE_COLUMN, number) : SCALE_INDEX(min(first_column + (number), last_column)))
#define ZERO_OF_COLUMN(number) \
    (ZERO_COLUMN_BLOCK == 1u ? OF_COLUMN(zero_range, ZERO_COLUMN, number) : ZERO_INDEX(min(first_column + (number), last_column)))

// What is loaded of some columns, with nothing computed of it: that would wait for memory.
#define LOAD_COLUMNS(number, first) \
    [[unroll]] for (uint i_ = 0u; i_ < LINES; ++i_) { \
        uint load_ = OF_COLUMN(packed_range, COLUMN_LOADS, (first) + i_ / SIDES); \
        [[unroll]] for (uint j_ = 0u; j_ < CHUNK_WORDS; ++j_) { \
            if (LOAD_WORDS == 4u) { \
                if (j_ % 4u == 0u) { \
                    uvec4 vector_ = WEIGHTS_AT(fours, i_ % SIDES, load_ + j_ / 4u); \
                    [[unroll]] for (uint k_ = 0u; k_ < min(CHUNK_WORDS, 4u); ++k_) { \
                        words[number][i_ * CHUNK_WORDS + j_ + k_] = vector_[k_]; \
                    } \
                } \
            } else { \
                bool is_there_ = CHUNKS_ARE_WHOLE || term + j_ * uint(WORD_TERMS) < parameters.terms; \
                words[number][i_ * CHUNK_WORDS + j_] = is_there_ ? WEIGHTS_AT(words, i_ % SIDES, load_ + j_) : 0u; \
            } \
        } \
        [[unroll]] for (uint j_ = 0u; j_ < MOST_HIGH; ++j_) { \
            if (j_ < CHUNK_HIGH) { \
                uint high_ = OF_COLUMN(high_range, PACKED_COLUMN / uint(WORD_TERMS), (first) + i_ / SIDES) + j_; \
                highs[number][i_ * MOST_HIGH + j_] = WEIGHTS_AT(words, i_ % SIDES, high_); \
            } \
        } \
        scales[number][i_] = SCALE_WORD(i_ % SIDES, scale_word(SCALE_OF_COLUMN((first) + i_ / SIDES))); \
        if (ZERO_KIND != ZERO_IS_NUMBER) { \
            zeros[number][i_] = ZERO_WORD(i_ % SIDES, zero_word(ZERO_OF_COLUMN((first) + i_ / SIDES))); \
        } \
    }

// What a chunk of each row gives with a column goes into shared memory; with several rests, before it is scaled.
#define VALUE_AT(result) values[((buffered * STAGE_RESULTS + (result)) * MOST_SEGMENTS + beside) * PITCH + within]

#ifndef IS_CHUNKED
#define SCALE_OF_WORD(word, number) \
    uintBitsToFloat(float32_from_float16((word) >> ((SCALE_COLUMN % 2u == 0u ? scale_range.x : SCALE_OF_COLUMN(number)) & 1u) * 16u & 0xffffu))

#define DECLARE_ROWS \
    uint planes[BLOCK_ROWS * 3u * PLANE_WORDS]; \
    uint byte_sums[BLOCK_ROWS * 3u]; \
    float row_units[BLOCK_ROWS], row_scales[BLOCK_ROWS]; \
    uint rests[BLOCK_ROWS], rest_terms[BLOCK_ROWS]; \
    float row_rests[BLOCK_ROWS];

// The integers of the rows' chunks, and what of each is needed besides: a single rest apart from several.
#define FIND_ROWS \
    [[unroll]] for (uint row_ = 0u; row_ < BLOCK_ROWS; ++row_) { \
        uvec4 terms_[CHUNK / 4u]; \
        [[unroll]] for (uint i_ = 0u; i_ < CHUNK / 4u; ++i_) { \
            uint end_ = is_inside ? parameters.terms : 0u; \
            terms_[i_] = left_four(min(first_row + row_, parameters.rows - 1u), term + 4u * i_, end_); \
        } \
        PLANES_OF_TERMS(row_, terms_) \
        rest_terms[row_] = uint(max(findLSB(rests[row_]), 0)); \
        if ((rests[row_] & rests[row_] - 1u) == 0u) { \
            rests[row_] = 0u; \
        } else { \
            row_rests[row_] = 0.0; \
        } \
    }

#define MULTIPLY_COLUMN(number, i, first) \
    { \
        float scale_ = SCALE_OF_WORD(scales[number][i], (first) + (i) / SIDES); \
        uint zero_ = ZERO_NUMBER; \
        if (ZERO_KIND == ZERO_IS_PACKED) { \
            zero_ = integer_of(zeros[number][i], ZERO_OF_COLUMN((first) + (i) / SIDES)); \
        } \
        uint less_ = uint(ZERO_OF_BYTES(zero_)); \
        uint bytes_[PLANE_WORDS]; \
        [[unroll]] for (uint k_ = 0u; k_ < PLANE_WORDS; ++k_) { \
            bytes_[k_] = WEIGHT_BYTES(words[number][(i) * CHUNK_WORDS + k_ / WORD_PARTS], k_ % WORD_PARTS); \
        } \
        [[unroll]] for (uint row_ = 0u; row_ < BLOCK_ROWS; ++row_) { \
            uint sums_[3]; \
            [[unroll]] for (uint plane_ = 0u; plane_ < 3u; ++plane_) { \
                sums_[plane_] = SUM_BIAS - less_ * byte_sums[row_ * 3u + plane_]; \
                [[unroll]] for (uint k_ = 0u; k_ < PLANE_WORDS; ++k_) { \
                    sums_[plane_] += four_products(bytes_[k_], planes[(row_ * 3u + plane_) * PLANE_WORDS + k_]); \
                } \
            } \
            float number_ = number_of_sums(sums_[0], sums_[1], sums_[2]); \
            /* The only m that is not zero, if there is one: no product of more than 24 bits. */ \
            uint word_ = words[number][(i) * CHUNK_WORDS]; \
            [[unroll]] for (uint k_ = 1u; k_ < CHUNK_WORDS; ++k_) { \
                word_ = rest_terms[row_] >= k_ * uint(WORD_TERMS) ? words[number][(i) * CHUNK_WORDS + k_] : word_; \
            } \
            precise float weight_ = float(int(integer_of(word_, rest_terms[row_])) - int(zero_)); \
            number_ = exact_product_plus(row_rests[row_], weight_, number_); \
            bool is_late_ = rests[row_] != 0u; \
            precise float factor_ = exact_product_plus(is_late_ ? 0.0 : row_units[row_], scale_, is_late_ ? 1.0 : 0.0); \
            precise float value_ = number_ * factor_; \
            VALUE_AT((((first) - stage) * SIDES + (i)) * BLOCK_ROWS + row_) = value_; \
        } \
    }

// Adds the rests of a chunk that has several, and scales.
#define ADD_RESTS(row) \
    if (rests[row] != 0u) { \
        [[dont_unroll]] for (uint i_ = 0u; i_ < results / BLOCK_ROWS; ++i_) { \
            uint column_ = min(first_column + stage + i_ / SIDES, last_column); \
            float rest_ = rest_of_chunk(min(first_row + (row), parameters.rows - 1u), column_, i_ % SIDES, term, rests[row], row_scales[row]); \
            precise float number_ = VALUE_AT(i_ * BLOCK_ROWS + (row)) + rest_; \
            float scale_ = uintBitsToFloat(operand(SCALE_AT(i_, scale_index(column_, term)))); \
            VALUE_AT(i_ * BLOCK_ROWS + (row)) = value_of_chunk(number_, row_units[row], scale_); \
        } \
    }
#else
#define DECLARE_ROWS \
    float terms[BLOCK_ROWS * CHUNK]; \
    float row_sums[BLOCK_ROWS]; \
    uint row_least[BLOCK_ROWS];
#define ADD_RESTS(row)

#define FIND_ROWS \
    [[unroll]] for (uint row_ = 0u; row_ < BLOCK_ROWS; ++row_) { \
        uint lowest_ = NO_LOWEST; \
        precise float sum_ = 0.0; \
        [[unroll]] for (uint i_ = 0u; i_ < CHUNK; i_ += 4u) { \
            uint end_ = is_inside ? parameters.terms : 0u; \
            uvec4 four_ = left_four(min(first_row + row_, parameters.rows - 1u), term + i_, end_); \
            lowest_ = min(lowest_, lowest_of_four(four_)); \
            [[unroll]] for (uint j_ = 0u; j_ < 4u; ++j_) { \
                terms[row_ * CHUNK + i_ + j_] = uintBitsToFloat(four_[j_]); \
                sum_ = sum_ + uintBitsToFloat(four_[j_]); \
            } \
        } \
        row_sums[row_] = sum_; \
        row_least[row_] = least_scale(lowest_); \
    }

#define MULTIPLY_COLUMN(number, i, first) \
    { \
        uint zero_at_ = ZERO_KIND == ZERO_IS_NUMBER ? 0u : ZERO_OF_COLUMN((first) + (i) / SIDES); \
        uint zero_ = ZERO_KIND == ZERO_IS_NUMBER ? ZERO_NUMBER : zero_of(zeros[number][i], zero_at_); \
        uvec2 entry_ = entry_of(scale_of(scales[number][i], SCALE_OF_COLUMN((first) + (i) / SIDES)), zero_); \
        uint minimum_ = HAS_MINIMA ? minimum_of(scales[number][i], zeros[number][i], zero_at_) : 0u; \
        FIND_EXPONENTS \
        uint lowest_ = NO_LOWEST; \
        float products_[BLOCK_ROWS]; \
        [[unroll]] for (uint row_ = 0u; row_ < BLOCK_ROWS; ++row_) { products_[row_] = 0.0; } \
        [[unroll]] for (uint k_ = 0u; k_ < CHUNK_WORDS; ++k_) { \
            uint word_ = FLIPPED(words[number][(i) * CHUNK_WORDS + k_]); \
            uint high_ = HIGH_OF_WORD(highs[number], (i) * MOST_HIGH, k_); \
            float biased_[WORD_TERMS]; \
            BIASED_TERMS(word_, high_, biased_) \
            [[unroll]] for (uint j_ = 0u; j_ < uint(WORD_TERMS); ++j_) { \
                precise float bias_ = (BIAS(j_) + HALF_RANGE) + (ZERO_KIND == ZERO_IS_FLOAT ? 0.0 : uintBitsToFloat(entry_.y)); \
                precise float weight_ = biased_[j_] - bias_; \
                if (ZERO_KIND == ZERO_IS_FLOAT) { \
                    precise float difference_ = weight_ - uintBitsToFloat(entry_.y); \
                    weight_ = difference_; \
                    lowest_ = min(lowest_, lowest_of(floatBitsToUint(difference_))); \
                } \
                [[unroll]] for (uint row_ = 0u; row_ < BLOCK_ROWS; ++row_) { \
                    float own_ = terms[row_ * CHUNK + k_ * uint(WORD_TERMS) + j_]; \
                    products_[row_] = chunk_product_plus(own_, weight_, products_[row_]); \
                } \
            } \
        } \
        [[unroll]] for (uint row_ = 0u; row_ < BLOCK_ROWS; ++row_) { \
            float value_ = value_of_chunk(products_[row_], row_sums[row_], entry_.x, minimum_, row_least[row_], lowest_); \
            VALUE_AT((((first) - stage) * SIDES + (i)) * BLOCK_ROWS + row_) = value_; \
        } \
    }
#endif

void main() {
    WORK_GROUP(group)
    uint invocation = index_in_group();
    uint beside = invocation / CHUNKS_OF_SEGMENT;
    uint within = invocation % CHUNKS_OF_SEGMENT;
    // Work groups that run at one time read the same weights.
    uint first_row = group % parameters.row_tiles * BLOCK_ROWS;
    uint first_column = group / parameters.row_tiles * GROUP_COLUMNS;
    uint last_column = min(first_column + GROUP_COLUMNS, parameters.columns) - 1u;
    uint words[2][LINES * CHUNK_WORDS];
    uint scales[2][LINES];
    uint zeros[2][LINES];
    uint highs[2][LINES * MOST_HIGH];
    DECLARE_ROWS
    for (uint iteration = 0u; iteration < SEGMENTS; iteration += SEGMENTS_BESIDE) {
        uint segments = min(SEGMENTS_BESIDE, SEGMENTS - iteration);
        uint own_term = (iteration + beside) * SEGMENT + within * CHUNK;
        bool is_inside = beside < segments && own_term < parameters.terms;
        uint term = is_inside ? own_term : 0u; // what there is not is zero, times what there is
        uvec2 packed_range = RANGE(PACKED_INDEX);
        uvec2 scale_range = RANGE(SCALE_INDEX);
        uvec2 zero_range = RANGE(ZERO_INDEX);
        uvec2 high_range = RANGE(HIGH_INDEX);
        LOAD_COLUMNS(0, 0u)
        FIND_ROWS
        uint buffered = 0u;
        [[dont_unroll]] for (uint stage = 0u; stage < GROUP_COLUMNS; stage += STAGE_COLUMNS) {
            [[dont_unroll]] for (uint first = stage; first < min(stage + STAGE_COLUMNS, GROUP_COLUMNS); first += 2u * AT_ONCE) {
                LOAD_COLUMNS(1, first + AT_ONCE)
                [[unroll]] for (uint i = 0u; i < LINES; ++i) {
                    MULTIPLY_COLUMN(0, i, first)
                }
                LOAD_COLUMNS(0, first + 2u * AT_ONCE)
                [[unroll]] for (uint i = 0u; i < LINES; ++i) {
                    MULTIPLY_COLUMN(1, i, first + AT_ONCE)
                }
            }
            uint results = min(STAGE_COLUMNS, GROUP_COLUMNS - stage) * SIDES * BLOCK_ROWS;
            [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                ADD_RESTS(row)
            }
            barrier();
            for (uint i = invocation; i < results * segments; i += INVOCATIONS) {
                uint result = i % results;
                uint segment = i / results;
                uint at = ((buffered * STAGE_RESULTS + result) * MOST_SEGMENTS + segment) * PITCH;
                float sum = 0.0;
                [[unroll]] for (uint k = 0u; k < CHUNKS_OF_SEGMENT; ++k) {
                    sum = rounded_sum(sum, values[at + k]);
                }
                segment_sums[(stage * SIDES * BLOCK_ROWS + result) * MOST_SEGMENTS + segment] = sum;
            }
            buffered = 1u - buffered;
        }
        barrier();
        for (uint i = invocation; i < GROUP_COLUMNS * SIDES * BLOCK_ROWS; i += INVOCATIONS) {
            float total = iteration == 0u ? 0.0 : totals[i];
            for (uint segment = 0u; segment < segments; ++segment) {
                total = rounded_sum(total, segment_sums[i * MOST_SEGMENTS + segment]);
            }
            totals[i] = total;
        }
    }
    barrier();
    for (uint i = invocation; i < GROUP_COLUMNS / 2u * BLOCK_ROWS; i += INVOCATIONS) {
        uint row = first_row + i / (GROUP_COLUMNS / 2u);
        uint first = i % (GROUP_COLUMNS / 2u) * 2u;
        uint results[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint column = first_column + first + j;
            results[j] = 0u;
            if (row < parameters.rows && column < parameters.columns) {
                uint at = (first + j) * SIDES * BLOCK_ROWS + i / (GROUP_COLUMNS / 2u);
                results[j] = result_of_total(totals[at], row, column, 0u);
#ifdef IS_GATED
                results[j] = gated(results[j], result_of_total(totals[at + BLOCK_ROWS], row, column, 1u));
#endif
                if (!OUTPUT_HAS_PAIRS) { STORE(OPERAND_BITS, words_output, output_index(row, column), results[j]); }
            }
        }
        if (OUTPUT_HAS_PAIRS && row < parameters.rows && first_column + first < parameters.columns) {
            words_output[output_index(row, first_column + first) >> 1u] = results[0] | results[1] << 16u;
        }
    }
}
