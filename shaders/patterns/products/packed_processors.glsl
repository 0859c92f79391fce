// Products with packed weights (packed_integers.glsl) on processors. An invocation has a lane of columns and BLOCK_ROWS rows, without shared
// memory. It goes through each chunk of the rows once, for GROUP_COLUMNS / INVOCATIONS columns.
//
// Integers are floats here, since sums below 2^24 are exact, and one instruction multiplies and adds. Terms are made parts whose sums with a
// chunk's weights are below that: two of 12 bits; of wide integers two of 16 bits where weights are small, else three of 11. Rests, which few
// chunks have, are a second turn of a loop, in two parts: llvmpipe executes both sides of a branch.
//
// What processors load is loaded for one invocation after the other. All invocations of a work group have the same rows: where that is one
// subgroup (SHARES_TERMS), each makes parts of others of their terms, and hands them on.
//
// The compile script passes BLOCK_ROWS, INVOCATIONS, MOST_COLUMNS (columns of an invocation), SHARES_TERMS and what packed_integers.glsl is
// passed.
#define IS_FOR_PROCESSORS
#include "products/packed_integers.glsl"

layout(local_size_x = INVOCATIONS) in;

layout(constant_id = 20) const uint GROUP_COLUMNS = 1u; // a multiple of INVOCATIONS
// Whether all chunks are whole.
layout(constant_id = 21) const bool CHUNKS_ARE_WHOLE = false;
// Whether a chunk of a column can be loaded by vectors of 16 bytes.
layout(constant_id = 22) const bool PACKED_HAS_VECTORS = false;

#if SHARES_TERMS
#define OWN_TERMS (CHUNK / INVOCATIONS)
#define OF_ALL(own, number) subgroupShuffle(own[(number) / INVOCATIONS], (number) % INVOCATIONS)
#define LARGEST_OF(number) subgroupMax(number)
#define SMALLEST_OF(number) subgroupMin(number)
#define SUM_OF(number) subgroupAdd(number)
#define LOAD_OWN(own, row) \
    [[unroll]] for (uint i = 0u; i < OWN_TERMS; ++i) { \
        uint term_ = term + i * INVOCATIONS + gl_SubgroupInvocationID; \
        uint index_ = left_index(min(first_row + row, parameters.rows - 1u), min(term_, parameters.terms - 1u)); \
        uint bits_ = operand(LOAD(OPERAND, words_left, index_)); \
        own[i] = term_ < end ? bits_ : 0u; \
    }
#else
#define OWN_TERMS CHUNK
#define OF_ALL(own, number) own[number]
#define LARGEST_OF(number) number
#define SMALLEST_OF(number) number
#define SUM_OF(number) number
#define LOAD_OWN(own, row) \
    [[unroll]] for (uint i = 0u; i < CHUNK; i += 4u) { \
        uvec4 four_ = left_four(min(first_row + row, parameters.rows - 1u), term + i, end); \
        [[unroll]] for (uint k = 0u; k < 4u; ++k) { own[i + k] = four_[k]; } \
    }
#endif

// Weights, of more than four bits less half of their range, are at most 512 / CHUNK where two parts of terms suffice.
#ifdef IS_WIDE
#define ROW_PARTS 3u
int middle_weight() {
    int middle = 0;
#if WEIGHT_BITS != 8
    if (TABLE == 0u && HIGH_BITS + uint(WEIGHT_BITS) > 4u) { middle = 1 << (int(HIGH_BITS) + WEIGHT_BITS - 1); }
#endif
    return middle;
}
bool has_two_parts() {
#if WEIGHT_BITS == 8
    return false;
#else
    uint most = HIGH_BITS + uint(WEIGHT_BITS) > 4u ? 1u << (HIGH_BITS + uint(WEIGHT_BITS) - 1u) : 15u;
    if (TABLE != 0u) { most = TABLE == 1u ? 12u : 127u; }
    return most * CHUNK <= 512u;
#endif
}
#define PART_BITS (has_two_parts() ? 16 : 11)
#define TOP_PART(upper, middle) (has_two_parts() ? upper : upper - middle >> PART_BITS)
#define SECOND_PART(middle, lower) (has_two_parts() ? lower : middle)
#define PUT_THIRD(i, lower) PUT_PART(2u, i, lower, 0)
#define IS_PART(part) ((part) < 2u || !has_two_parts())
float number_of_parts(int first, int second, int third) {
    if (has_two_parts()) { return number_of_halves(first, second); }
    int middle = second + (third >> 11);
    int upper = first + (middle >> 11);
    return exact_product_plus(float(upper), 4194304.0, float((middle & 2047) << 11 | third & 2047)); // 2^22
}
#else
#define ROW_PARTS 2u
#define middle_weight() 0
#define PART_BITS 12
#define TOP_PART(upper, middle) upper
#define SECOND_PART(middle, lower) lower
#define PUT_THIRD(i, lower)
#define IS_PART(part) true
float number_of_parts(int first, int second, int third) { return exact_product_plus(float(first), 4096.0, float(second)); }
#endif
#define NUMBER_OF_PARTS(sums, at) number_of_parts(sums[at], sums[(at) + 1u], sums[(at) + ROW_PARTS - 1u])
// Of rests m 2^-9 rounded down is the first part, and what is left the second.
float rest_of_parts(int first, int second) {
    precise float rest = exact_product_plus(float(first), 512.0, float(second)) * REST_UNIT;
    return rest;
}

#define PUT_PART(part, i, of_term, of_rest) \
    { \
        int of_part_ = turn == 0u ? of_term : of_rest; \
        own_sums_[part] = (i == 0u ? 0 : own_sums_[part]) + of_part_; \
        own_parts_[part][i] = float(of_part_); \
    }
// Parts of a row's chunk, and what else is needed of it; in the second turn those of its rests.
#ifdef IS_WIDE
#define ADD_TERM_SUM(row) \
    precise float with_rests_ = term_sums[row] + rest_of_parts(part_sums[(row) * ROW_PARTS], part_sums[(row) * ROW_PARTS + 1u]); \
    term_sums[row] = turn == 0u ? NUMBER_OF_PARTS(part_sums, (row) * ROW_PARTS) : with_rests_;
#else
#define ADD_TERM_SUM(row)
#endif
#define PARTS_OF_ROW(row) \
    uint terms_[OWN_TERMS]; \
    LOAD_OWN(terms_, row) \
    uint peak_ = 0u; \
    uint lowest_ = NO_LOWEST; \
    [[unroll]] for (uint i = 0u; i < OWN_TERMS; ++i) { \
        peak_ = max(peak_, terms_[i] & MAGNITUDE_F32); \
        lowest_ = min(lowest_, lowest_of(terms_[i])); \
    } \
    peak_ = LARGEST_OF(peak_); \
    bool in_range_ = is_in_range(peak_); \
    row_units[row] = unit_of(peak_, in_range_, is_thin(peak_, SMALLEST_OF(lowest_))); \
    float units_ = units_of(peak_, in_range_); \
    float own_parts_[ROW_PARTS][OWN_TERMS]; \
    int own_sums_[ROW_PARTS]; \
    uint has_rests_ = 0u; \
    [[unroll]] for (uint i = 0u; i < OWN_TERMS; ++i) { \
        precise float number_ = uintBitsToFloat(in_range_ ? terms_[i] : 0u) * units_; \
        float left_over_; \
        int integer_ = integer_of_term(number_, left_over_); \
        int rest_ = rest_of_left_over(left_over_); \
        has_rests_ |= uint(rest_); \
        int lower_ = bitfieldExtract(integer_, 0, PART_BITS); \
        int upper_ = integer_ - lower_ >> PART_BITS; \
        int middle_ = bitfieldExtract(upper_, 0, PART_BITS); \
        PUT_PART(0u, i, TOP_PART(upper_, middle_), rest_ >> 9) \
        PUT_PART(1u, i, SECOND_PART(middle_, lower_), rest_ & 511) \
        PUT_THIRD(i, lower_) \
    } \
    last_turn = LARGEST_OF(has_rests_) != 0u ? 1u : last_turn; \
    [[unroll]] for (uint part = 0u; part < ROW_PARTS; ++part) { \
        if (IS_PART(part)) { \
            part_sums[(row) * ROW_PARTS + part] = SUM_OF(own_sums_[part]); \
            [[unroll]] for (uint i = 0u; i < CHUNK; ++i) { \
                parts[((row) * CHUNK + i) * ROW_PARTS + part] = OF_ALL(own_parts_[part], i); \
            } \
        } else { \
            part_sums[(row) * ROW_PARTS + part] = 0; \
        } \
    } \
    ADD_TERM_SUM(row)

// What of a column's block is needed, and the weights of its chunk times the parts.
#ifdef IS_WIDE
#define FIND_BLOCK(column) \
    uint scale_at_ = scale_index(column, term); \
    uint zero_at_ = zero_index(column, term); \
    uint scale_word_ = words_scale[BASE_WORD(scale) + scale_word(scale_at_)]; \
    uint zero_word_ = ZERO_KIND == ZERO_IS_NUMBER ? 0u : words_zero[BASE_WORD(zero) + zero_word(zero_at_)]; \
    uint zero_ = ZERO_KIND == ZERO_IS_NUMBER ? ZERO_NUMBER : zero_of(zero_word_, zero_at_); \
    uvec2 block_ = SCALE_AND_MINIMUM(scale_of(scale_word_, scale_at_), zero_, minimum_of(scale_word_, zero_word_, zero_at_)); \
    int less_ = ZERO_OF_BYTES(ZERO_INTEGER(zero_)) - middle_weight(); \
    uint high_[MOST_HIGH]; \
    [[unroll]] for (uint i = 0u; i < MOST_HIGH; ++i) { \
        uint first_ = BASE_WORD(packed) + column * PACKED_COLUMN / uint(WORD_TERMS) + high_word(term); \
        high_[i] = i < CHUNK_HIGH ? words_packed[first_ + i] : 0u; \
    }
#define VALUE_OF_NUMBER(number, row) value_of_chunk(number, term_sums[row], row_units[row], block_)
#else
#define FIND_BLOCK(column) \
    float scale_ = uintBitsToFloat(operand(scale_at(scale_index(column, term)))); \
    int less_ = ZERO_OF_BYTES(zero_at(zero_index(column, term))); \
    uint high_[1] = uint[](0u);
#define VALUE_OF_NUMBER(number, row) value_of_chunk(number, row_units[row], scale_)
#endif
#if WEIGHT_BITS == 8
#define WEIGHT_OF_WORD(word, bits, j) float(bitfieldExtract(int(WEIGHT_BYTES(word, 0u, 0u)), int(j) * 8, 8))
#else
#define WEIGHT_OF_WORD(word, bits, j) \
    float(int(number_of(FLIPPED(word) >> (j) * uint(WEIGHT_BITS) & WEIGHT_MASK | (bits >> (j) * HIGH_BITS & HIGH_MASK) << uint(WEIGHT_BITS))) \
        - (TABLE != 0u ? 128 : 0) - middle_weight())
#endif
#define MULTIPLY_COLUMN(column) \
    float products[BLOCK_ROWS * ROW_PARTS]; \
    [[unroll]] for (uint i = 0u; i < BLOCK_ROWS * ROW_PARTS; ++i) { products[i] = 0.0; } \
    uint column_word_ = BASE_WORD(packed) + (column * PACKED_COLUMN + term) / uint(WORD_TERMS); \
    uint words_[CHUNK_WORDS]; \
    [[unroll]] for (uint i = 0u; i < CHUNK_WORDS; ++i) { \
        if (!PACKED_HAS_VECTORS) { \
            bool is_there_ = CHUNKS_ARE_WHOLE || term + i * uint(WORD_TERMS) < end; \
            words_[i] = is_there_ ? words_packed[column_word_ + i] : 0u; \
        } else if (i % 4u == 0u) { \
            uvec4 four_ = fours_packed[(column_word_ + i) >> 2u]; \
            [[unroll]] for (uint k = 0u; k < min(CHUNK_WORDS, 4u); ++k) { words_[i + k] = four_[k]; } \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < CHUNK_WORDS; ++i) { \
        uint word_ = words_[i]; \
        uint bits_ = HIGH_OF_WORD(high_, 0u, i); \
        [[unroll]] for (uint j = 0u; j < uint(WORD_TERMS); ++j) { \
            float weight_ = WEIGHT_OF_WORD(word_, bits_, j); \
            [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) { \
                uint of_term_ = (row * CHUNK + i * uint(WORD_TERMS) + j) * ROW_PARTS; \
                [[unroll]] for (uint part = 0u; part < ROW_PARTS; ++part) { \
                    uint at_ = row * ROW_PARTS + part; \
                    if (IS_PART(part)) { products[at_] = exact_product_plus(parts[of_term_ + part], weight_, products[at_]); } \
                } \
            } \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < BLOCK_ROWS * ROW_PARTS; ++i) { \
        product_sums[i] = IS_PART(i % ROW_PARTS) ? int(products[i]) - less_ * part_sums[i] : 0; \
    }

// What belongs to the next column comes to the front of numbers of columns, and what belonged to this one goes behind those: llvmpipe makes a
// ladder of branches of an array that is indexed by a variable.
#define BRING_TO_THE_FRONT(of_columns, row, number) \
    [[unroll]] for (uint next_ = 1u; next_ <= MOST_COLUMNS; ++next_) { \
        bool is_last_ = next_ == GROUP_COLUMNS / INVOCATIONS; \
        uint at_ = min(next_, MOST_COLUMNS - 1u) * BLOCK_ROWS + (row); \
        of_columns[(next_ - 1u) * BLOCK_ROWS + (row)] = is_last_ ? number : of_columns[at_]; \
    }

void main() {
    WORK_GROUP(group)
    uint first_row = group % parameters.row_tiles * BLOCK_ROWS;
    uint first_column = group / parameters.row_tiles * GROUP_COLUMNS + index_in_group();
    float totals[MOST_COLUMNS * BLOCK_ROWS];
    float sums[MOST_COLUMNS * BLOCK_ROWS];
    float numbers[MOST_COLUMNS * BLOCK_ROWS];
    [[unroll]] for (uint i = 0u; i < MOST_COLUMNS * BLOCK_ROWS; ++i) {
        totals[i] = 0.0;
        numbers[i] = 0.0;
    }
#ifdef IS_WIDE
    float term_sums[BLOCK_ROWS];
#endif
    // The condition of a loop comes last, so that its body is not executed once more for no invocation.
    uint segment = 0u;
    do {
        uint term = segment;
        uint end = min(segment + SEGMENT, parameters.terms);
        [[unroll]] for (uint i = 0u; i < MOST_COLUMNS * BLOCK_ROWS; ++i) { sums[i] = 0.0; }
        do {
            uint last_turn = 0u;
            uint turn = 0u;
            do {
                float parts[BLOCK_ROWS * CHUNK * ROW_PARTS];
                int part_sums[BLOCK_ROWS * ROW_PARTS];
                float row_units[BLOCK_ROWS];
                [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                    PARTS_OF_ROW(row)
                }
                uint each = 0u;
                do {
                    uint column = min(first_column + each * INVOCATIONS, parameters.columns - 1u);
                    int product_sums[BLOCK_ROWS * ROW_PARTS];
                    FIND_BLOCK(column)
                    MULTIPLY_COLUMN(column)
                    [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                        float rest = rest_of_parts(product_sums[row * ROW_PARTS], product_sums[row * ROW_PARTS + 1u]);
                        precise float with_rest = numbers[row] + rest;
                        float number = turn == 0u ? NUMBER_OF_PARTS(product_sums, row * ROW_PARTS) : with_rest;
                        float sum = rounded_sum(sums[row], VALUE_OF_NUMBER(number, row));
                        sum = turn == last_turn ? sum : sums[row];
                        BRING_TO_THE_FRONT(numbers, row, number)
                        BRING_TO_THE_FRONT(sums, row, sum)
                    }
                } while (++each < GROUP_COLUMNS / INVOCATIONS);
            } while (++turn <= last_turn);
            term += CHUNK;
        } while (term < end);
        [[unroll]] for (uint i = 0u; i < MOST_COLUMNS * BLOCK_ROWS; ++i) {
            totals[i] = rounded_sum(totals[i], sums[i]);
        }
        segment += SEGMENT;
    } while (segment < parameters.terms);
    uint each = 0u;
    do {
        uint column = first_column + each * INVOCATIONS;
        [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
            if (column < parameters.columns && first_row + row < parameters.rows) {
                uint result = result_of_total(totals[row], first_row + row, column, 0u);
                STORE(OPERAND_BITS, words_output, output_index(first_row + row, column), result);
            }
            BRING_TO_THE_FRONT(totals, row, totals[row])
        }
    } while (++each < GROUP_COLUMNS / INVOCATIONS);
}
