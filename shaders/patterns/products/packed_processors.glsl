// Products with packed weights (packed_integers.glsl) on processors. An invocation has a lane of columns and BLOCK_ROWS rows, without shared
// memory. It goes through each chunk of the rows once, for GROUP_COLUMNS / INVOCATIONS columns.
//
// Integers are floats here, since sums below 2^24 are exact, and one instruction multiplies and adds. With weights of up to 4 bits two
// parts of n suffice, one of them of 16 bits; with more there are three. Wide integers have their last byte as one more part. Rests, which few
// chunks have, are a second turn of a loop, in two parts: llvmpipe executes both sides of a branch.
//
// The compile script passes BLOCK_ROWS, INVOCATIONS, MOST_COLUMNS (columns of an invocation) and what packed_integers.glsl is passed.
#define IS_FOR_PROCESSORS
#include "products/packed_integers.glsl"

layout(local_size_x = INVOCATIONS) in;

layout(constant_id = 20) const uint GROUP_COLUMNS = 1u; // a multiple of INVOCATIONS
// Whether all chunks are whole.
layout(constant_id = 21) const bool CHUNKS_ARE_WHOLE = false;

#ifdef IS_WIDE
#define ROW_PARTS 4
// Of few bits the first two bytes are one part.
#define LEAVES_SECOND (WEIGHT_BITS != 8 && HIGH_BITS == 0u && TABLE == 0u)
#define IS_PART(part) (!((part) == 1u && LEAVES_SECOND))
#else
#if WEIGHT_BITS == 8
#define ROW_PARTS 3
#else
#define ROW_PARTS 2
#endif
#define IS_PART(part) true
#endif

// The number that a chunk's sums of parts are, from number `at` on.
#ifdef IS_WIDE
#define NUMBER_OF_PARTS(sums, at) number_of_parts(sums[at], sums[(at) + 1u], sums[(at) + 2u], sums[(at) + 3u])
float number_of_parts(float first, float second, float third, float fourth) {
    uvec3 biased = SUM_BIAS + uvec3(ivec3(first, second, third));
    float number = LEAVES_SECOND ? exact_product_plus(first, 256.0, third) : number_of_sums(biased.x, biased.y, biased.z);
    return exact_product_plus(fourth, 0.00390625, number); // 2^-8
}
#elif ROW_PARTS == 3
#define NUMBER_OF_PARTS(sums, at) number_of_parts(sums[at], sums[(at) + 1u], sums[(at) + 2u])
float number_of_parts(float first, float second, float third) {
    uvec3 biased = SUM_BIAS + uvec3(ivec3(first, second, third));
    return number_of_sums(biased.x, biased.y, biased.z);
}
#else
#define NUMBER_OF_PARTS(sums, at) exact_product_plus(sums[at], 65536.0, sums[(at) + 1u])
#endif
// The same of rests: with what is left of m 2^-9 in the part behind the first, or in the third one.
#define REST_PART (ROW_PARTS == 4 ? 2u : 1u)
float rest_of_parts(float first, float second) {
    precise float rest = exact_product_plus(first, 512.0, second) * REST_UNIT;
    return rest;
}

// Parts of a row's chunk, and what else is needed of it; in the second turn those of its rests.
#ifdef IS_WIDE
#define PUT_PARTS(at, integer) \
    { \
        uint biased_ = uint(integer) + 0x80808080u; \
        parts[at] = LEAVES_SECOND ? float(int(biased_ >> 16u) - 0x8080) : float(int(biased_ >> 24u) - 128); \
        parts[(at) + 1u] = float(int(biased_ >> 16u & 0xffu) - 128); \
        parts[(at) + 2u] = float(int(biased_ >> 8u & 0xffu) - 128); \
        parts[(at) + 3u] = float(int(biased_ & 0xffu) - 128); \
    }
#define ADD_TERM_SUM(row) \
    float of_terms_ = NUMBER_OF_PARTS(part_sums, (row) * ROW_PARTS); \
    precise float with_rests_ = term_sums[row] + rest_of_parts(part_sums[(row) * ROW_PARTS], part_sums[(row) * ROW_PARTS + REST_PART]); \
    term_sums[row] = turn == 0u ? of_terms_ : with_rests_;
#else
#define PUT_PARTS(at, integer) \
    { \
        int biased_ = (integer) + 0x808080; \
        parts[at] = float((biased_ >> 16) - 128); \
        parts[(at) + 1u] = ROW_PARTS == 2 ? float((biased_ & 0xffff) - 0x8080) : float((biased_ >> 8 & 0xff) - 128); \
        if (ROW_PARTS == 3) { parts[(at) + uint(ROW_PARTS) - 1u] = float((biased_ & 0xff) - 128); } \
    }
#define ADD_TERM_SUM(row)
#endif
#define PARTS_OF_ROW(row) \
    uvec4 terms_[CHUNK / 4u]; \
    uint peak_ = 0u; \
    uint lowest_ = NO_LOWEST; \
    [[unroll]] for (uint i = 0u; i < CHUNK / 4u; ++i) { \
        terms_[i] = left_four(min(first_row + row, parameters.rows - 1u), term + 4u * i, end); \
        uvec4 magnitudes_ = terms_[i] & MAGNITUDE_F32; \
        peak_ = max(peak_, max(max(magnitudes_.x, magnitudes_.y), max(magnitudes_.z, magnitudes_.w))); \
        lowest_ = min(lowest_, lowest_of_four(terms_[i])); \
    } \
    bool in_range_ = is_in_range(peak_); \
    row_units[row] = unit_of(peak_, in_range_, is_thin(peak_, lowest_)); \
    float units_ = units_of(peak_, in_range_); \
    [[unroll]] for (uint part = 0u; part < ROW_PARTS; ++part) { part_sums[(row) * ROW_PARTS + part] = 0.0; } \
    [[unroll]] for (uint i = 0u; i < CHUNK; ++i) { \
        precise float number_ = uintBitsToFloat(in_range_ ? terms_[i / 4u][i % 4u] : 0u) * units_; \
        float left_over_; \
        int integer_ = integer_of_term(number_, left_over_); \
        int rest_ = rest_of_left_over(left_over_); \
        last_turn = rest_ != 0 ? 1u : last_turn; \
        uint at_ = ((row) * CHUNK + i) * ROW_PARTS; \
        PUT_PARTS(at_, integer_) \
        if (turn != 0u) { \
            [[unroll]] for (uint part = 1u; part < ROW_PARTS; ++part) { parts[at_ + part] = 0.0; } \
            parts[at_] = float(rest_ >> 9); \
            parts[at_ + REST_PART] = float(rest_ & 511); \
        } \
        [[unroll]] for (uint part = 0u; part < ROW_PARTS; ++part) { \
            precise float next_ = part_sums[(row) * ROW_PARTS + part] + parts[at_ + part]; \
            part_sums[(row) * ROW_PARTS + part] = next_; \
        } \
    } \
    ADD_TERM_SUM(row)

// What of a column's block is needed, and the weights of its chunk times the parts.
#ifdef IS_WIDE
#define FIND_BLOCK(column) \
    uint zero_ = zero_at(zero_index(column, term)); \
    uvec2 block_ = SCALE_AND_MINIMUM(scale_at(scale_index(column, term)), zero_, scale_minimum(column, term)); \
    float less_ = float(ZERO_OF_BYTES(ZERO_INTEGER(zero_))); \
    uint high_[MOST_HIGH]; \
    [[unroll]] for (uint i = 0u; i < MOST_HIGH; ++i) { \
        uint first_ = BASE_WORD(packed) + column * PACKED_COLUMN / uint(WORD_TERMS) + high_word(term); \
        high_[i] = i < CHUNK_HIGH ? words_packed[first_ + i] : 0u; \
    }
#define VALUE_OF_NUMBER(number, row) value_of_chunk(number, term_sums[row], row_units[row], block_)
#else
#define FIND_BLOCK(column) \
    float scale_ = uintBitsToFloat(operand(scale_at(scale_index(column, term)))); \
    float less_ = float(ZERO_OF_BYTES(zero_at(zero_index(column, term)))); \
    uint high_[1] = uint[](0u);
#define VALUE_OF_NUMBER(number, row) value_of_chunk(number, row_units[row], scale_)
#endif
#if WEIGHT_BITS == 8
#define WEIGHT_OF_WORD(word, bits, j) float(bitfieldExtract(int(WEIGHT_BYTES(word, 0u, 0u)), int(j) * 8, 8))
#else
#define WEIGHT_OF_WORD(word, bits, j) \
    float(int(number_of(FLIPPED(word) >> (j) * uint(WEIGHT_BITS) & WEIGHT_MASK | (bits >> (j) * HIGH_BITS & HIGH_MASK) << uint(WEIGHT_BITS))) \
        - (TABLE != 0u ? 128 : 0))
#endif
#define MULTIPLY_COLUMN(column) \
    [[unroll]] for (uint i = 0u; i < BLOCK_ROWS * ROW_PARTS; ++i) { products[i] = 0.0; } \
    uint column_word_ = BASE_WORD(packed) + (column * PACKED_COLUMN + term) / uint(WORD_TERMS); \
    [[unroll]] for (uint i = 0u; i < CHUNK_WORDS; ++i) { \
        bool is_there_ = CHUNKS_ARE_WHOLE || term + i * uint(WORD_TERMS) < end; \
        uint word_ = is_there_ ? words_packed[column_word_ + i] : 0u; \
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
        if (IS_PART(i % ROW_PARTS)) { products[i] = exact_product_plus(-less_, part_sums[i], products[i]); } \
    }

void main() {
    WORK_GROUP(group)
    uint first_row = group % parameters.row_tiles * BLOCK_ROWS;
    uint first_column = group / parameters.row_tiles * GROUP_COLUMNS + index_in_group();
    float totals[MOST_COLUMNS * BLOCK_ROWS];
    float sums[MOST_COLUMNS * BLOCK_ROWS];
    float numbers[MOST_COLUMNS * BLOCK_ROWS];
#ifdef IS_WIDE
    float term_sums[BLOCK_ROWS];
#endif
    for (uint segment = 0u; segment < SEGMENTS; ++segment) {
        uint end = min(segment * SEGMENT + SEGMENT, parameters.terms);
        for (uint i = 0u; i < GROUP_COLUMNS / INVOCATIONS * BLOCK_ROWS; ++i) { sums[i] = 0.0; }
        for (uint term = segment * SEGMENT; term < end; term += CHUNK) {
            uint last_turn = 0u;
            for (uint turn = 0u; turn <= last_turn; ++turn) {
                float parts[BLOCK_ROWS * CHUNK * ROW_PARTS];
                float part_sums[BLOCK_ROWS * ROW_PARTS];
                float row_units[BLOCK_ROWS];
                [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                    PARTS_OF_ROW(row)
                }
                for (uint each = 0u; each < GROUP_COLUMNS / INVOCATIONS; ++each) {
                    uint column = min(first_column + each * INVOCATIONS, parameters.columns - 1u);
                    float products[BLOCK_ROWS * ROW_PARTS];
                    FIND_BLOCK(column)
                    MULTIPLY_COLUMN(column)
                    [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                        uint at = each * BLOCK_ROWS + row;
                        float rest = rest_of_parts(products[row * ROW_PARTS], products[row * ROW_PARTS + REST_PART]);
                        precise float with_rest = numbers[at] + rest;
                        numbers[at] = turn == 0u ? NUMBER_OF_PARTS(products, row * ROW_PARTS) : with_rest;
                        float sum = rounded_sum(sums[at], VALUE_OF_NUMBER(numbers[at], row));
                        sums[at] = turn == last_turn ? sum : sums[at];
                    }
                }
            }
        }
        for (uint i = 0u; i < GROUP_COLUMNS / INVOCATIONS * BLOCK_ROWS; ++i) {
            totals[i] = segment == 0u ? sums[i] : rounded_sum(totals[i], sums[i]);
        }
    }
    for (uint each = 0u; each < GROUP_COLUMNS / INVOCATIONS; ++each) {
        uint column = first_column + each * INVOCATIONS;
        [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
            if (column < parameters.columns && first_row + row < parameters.rows) {
                uint result = result_of_total(totals[each * BLOCK_ROWS + row], first_row + row, column, 0u);
                STORE(OPERAND_BITS, words_output, output_index(first_row + row, column), result);
            }
        }
    }
}
