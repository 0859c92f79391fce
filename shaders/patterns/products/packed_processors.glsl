// Products with packed weights on processors: by exact integers or, where IS_CHUNKED is defined, chunk by chunk. An invocation has a lane of
// columns and BLOCK_ROWS rows, without shared memory. It goes through each chunk of the rows once, for GROUP_COLUMNS / INVOCATIONS columns.
//
// Integers are floats here, since sums below 2^24 are exact, and one instruction multiplies and adds: n is two parts of 12 bits.
//
// The compile script passes BLOCK_ROWS, INVOCATIONS, MOST_COLUMNS (columns of an invocation), SHARES_TERMS and what
// packed_integers.glsl, or packed_chunks.glsl, is passed.
#ifdef IS_CHUNKED
#include "products/packed_chunks.glsl"
#else
#define IS_FOR_PROCESSORS
#include "products/packed_integers.glsl"
#endif

#define ROW_PARTS 2u

layout(local_size_x = INVOCATIONS) in;

layout(constant_id = 20) const uint GROUP_COLUMNS = 1u; // a multiple of INVOCATIONS
// Whether all chunks are whole.
layout(constant_id = 21) const bool CHUNKS_ARE_WHOLE = false;

// What processors load is loaded for one invocation after the other. All invocations of a work group have the same rows: where that is one
// subgroup (SHARES_TERMS), each loads others of their terms, and hands on what it makes of them.
#if SHARES_TERMS
#define OWN_TERMS (CHUNK / INVOCATIONS)
#define TERM_NUMBER(i) ((i) * INVOCATIONS + lane) // lane: of all bits, as the invocation's number is not
#define OF_ALL(own, number) subgroupShuffle(own[(number) / INVOCATIONS], (number) % INVOCATIONS)
#define LARGEST_OF(number) subgroupMax(number)
#define SMALLEST_OF(number) subgroupMin(number)
#define SUM_OF(number) subgroupAdd(number)
#define BITS_OF(number) subgroupOr(number)
#define LOAD_OWN(own, row) \
    [[unroll]] for (uint i = 0u; i < OWN_TERMS; ++i) { \
        uint term_ = term + TERM_NUMBER(i); \
        uint index_ = left_index(min(first_row + row, parameters.rows - 1u), min(term_, parameters.terms - 1u)); \
        uint bits_ = operand(LOAD(OPERAND, words_left, index_)); \
        own[i] = term_ < end ? bits_ : 0u; \
    }
#else
#define OWN_TERMS CHUNK
#define TERM_NUMBER(i) (i)
#define OF_ALL(own, number) own[number]
#define LARGEST_OF(number) number
#define SMALLEST_OF(number) number
#define SUM_OF(number) number
#define BITS_OF(number) number
#define LOAD_OWN(own, row) \
    [[unroll]] for (uint i = 0u; i < CHUNK; i += 4u) { \
        uvec4 four_ = left_four(min(first_row + row, parameters.rows - 1u), term + i, end); \
        [[unroll]] for (uint k = 0u; k < 4u; ++k) { own[i + k] = four_[k]; } \
    }
#endif

// What belongs to the next column comes to the front of numbers of columns, and what belonged to this one goes behind those: llvmpipe keeps an
// array in memory that is indexed by a variable, and stores it number by number.
#define BRING_TO_THE_FRONT(of_columns, row, number) \
    [[unroll]] for (uint next_ = 1u; next_ <= MOST_COLUMNS; ++next_) { \
        bool is_last_ = next_ == GROUP_COLUMNS / INVOCATIONS; \
        uint at_ = min(next_, MOST_COLUMNS - 1u) * BLOCK_ROWS + (row); \
        of_columns[(next_ - 1u) * BLOCK_ROWS + (row)] = is_last_ ? number : of_columns[at_]; \
    }

// The condition of a loop comes last: llvmpipe executes a body once more for no invocation where it comes first.
void main() {
    WORK_GROUP(group)
#if SHARES_TERMS
    uint lane = gl_SubgroupInvocationID;
#endif
    uint first_row = group % parameters.row_tiles * BLOCK_ROWS;
    uint first_column = group / parameters.row_tiles * GROUP_COLUMNS + index_in_group();
    float totals[MOST_COLUMNS * BLOCK_ROWS];
    float sums[MOST_COLUMNS * BLOCK_ROWS];
    [[unroll]] for (uint i = 0u; i < MOST_COLUMNS * BLOCK_ROWS; ++i) { totals[i] = 0.0; }
    uint segment = 0u;
    do {
        uint term = segment;
        uint end = min(segment + SEGMENT, parameters.terms);
        [[unroll]] for (uint i = 0u; i < MOST_COLUMNS * BLOCK_ROWS; ++i) { sums[i] = 0.0; }
        do {
#ifdef IS_CHUNKED
            float terms[BLOCK_ROWS * CHUNK];
            float row_sums[BLOCK_ROWS];
            uint row_least[BLOCK_ROWS];
            [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                uint own[OWN_TERMS];
                LOAD_OWN(own, row)
                uint lowest = NO_LOWEST;
                [[unroll]] for (uint i = 0u; i < OWN_TERMS; ++i) { lowest = min(lowest, lowest_of(own[i])); }
                row_sums[row] = 0.0;
                [[unroll]] for (uint i = 0u; i < CHUNK; ++i) {
                    terms[row * CHUNK + i] = uintBitsToFloat(OF_ALL(own, i));
                    row_sums[row] = rounded_sum(row_sums[row], terms[row * CHUNK + i]);
                }
                row_least[row] = least_scale(SMALLEST_OF(lowest));
            }
#else
            float parts[BLOCK_ROWS * CHUNK * ROW_PARTS];
            float part_sums[BLOCK_ROWS * ROW_PARTS];
            float row_units[BLOCK_ROWS], row_scales[BLOCK_ROWS];
            uint rests[BLOCK_ROWS];
            [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                uint own[OWN_TERMS];
                LOAD_OWN(own, row)
                uint peak = 0u;
                [[unroll]] for (uint i = 0u; i < OWN_TERMS; ++i) { peak = max(peak, own[i] & MAGNITUDE_F32); }
                peak = LARGEST_OF(peak);
                row_units[row] = unit_of(peak);
                row_scales[row] = units_of(peak);
                uint own_rests = 0u;
                float own_parts[ROW_PARTS][OWN_TERMS];
                float own_sums[ROW_PARTS];
                [[unroll]] for (uint part = 0u; part < ROW_PARTS; ++part) { own_sums[part] = 0.0; }
                [[unroll]] for (uint i = 0u; i < OWN_TERMS; ++i) {
                    precise float number = uintBitsToFloat(peak < INFINITY_F32 ? own[i] : 0u) * row_scales[row];
                    float nearest = integer_of_term(number);
                    own_rests |= nearest != number ? 1u << TERM_NUMBER(i) : 0u;
                    int integer = int(nearest);
                    int lower = bitfieldExtract(integer, 0, 12);
                    own_parts[0][i] = float(integer - lower >> 12);
                    own_parts[1][i] = float(lower);
                    [[unroll]] for (uint part = 0u; part < ROW_PARTS; ++part) {
                        precise float next = own_sums[part] + own_parts[part][i];
                        own_sums[part] = next;
                    }
                }
                rests[row] = BITS_OF(own_rests);
                [[unroll]] for (uint part = 0u; part < ROW_PARTS; ++part) {
                    part_sums[row * ROW_PARTS + part] = SUM_OF(own_sums[part]);
                    [[unroll]] for (uint i = 0u; i < CHUNK; ++i) {
                        parts[(row * CHUNK + i) * ROW_PARTS + part] = OF_ALL(own_parts[part], i);
                    }
                }
            }
#endif
            uint each = 0u;
            do {
                uint column = min(first_column + each * INVOCATIONS, parameters.columns - 1u);
#ifdef IS_CHUNKED
                uint scale_place = scale_index(column, term), zero_place = zero_index(column, term);
                uint own_scale = words_scale[BASE_WORD(scale) + scale_word(scale_place)];
                uint own_zero = ZERO_KIND == ZERO_IS_NUMBER ? 0u : words_zero[BASE_WORD(zero) + zero_word(zero_place)];
                uint zero = ZERO_KIND == ZERO_IS_NUMBER ? ZERO_NUMBER : zero_of(own_zero, zero_place);
                uvec2 entry = entry_of(scale_of(own_scale, scale_place), zero);
                uint minimum = HAS_MINIMA ? minimum_of(own_scale, own_zero, zero_place) : 0u;
                uint column_word = BASE_WORD(packed) + column * PACKED_COLUMN / uint(WORD_TERMS);
                uint high[MOST_HIGH];
                [[unroll]] for (uint i = 0u; i < MOST_HIGH; ++i) {
                    high[i] = i < CHUNK_HIGH ? words_packed[column_word + high_word(term) + i] : 0u;
                }
                uint lowest = NO_LOWEST;
                float products[BLOCK_ROWS];
                [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) { products[row] = 0.0; }
                [[unroll]] for (uint i = 0u; i < CHUNK_WORDS; ++i) {
                    bool is_there = CHUNKS_ARE_WHOLE || term + i * uint(WORD_TERMS) < end;
                    uint word = is_there ? words_packed[column_word + term / uint(WORD_TERMS) + i] : 0u;
                    uint bits = HIGH_OF_WORD(high, 0u, i);
                    [[unroll]] for (uint j = 0u; j < uint(WORD_TERMS); ++j) {
                        uint integer = integer_of(word, j) | (bits >> j * HIGH_BITS & HIGH_MASK) << uint(WEIGHT_BITS);
                        precise float weight = float(int(number_of(integer))) - uintBitsToFloat(entry.y);
                        if (ZERO_KIND == ZERO_IS_FLOAT) { lowest = min(lowest, lowest_of(floatBitsToUint(weight))); }
                        [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                            products[row] = chunk_product_plus(terms[row * CHUNK + i * uint(WORD_TERMS) + j], weight, products[row]);
                        }
                    }
                }
                [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                    float value = value_of_chunk(products[row], row_sums[row], entry.x, minimum, row_least[row], lowest);
                    float sum = rounded_sum(sums[row], value);
                    BRING_TO_THE_FRONT(sums, row, sum)
                }
#else
                float scale = uintBitsToFloat(operand(scale_at(scale_index(column, term))));
                float less = float(ZERO_OF_BYTES(zero_at(zero_index(column, term))));
                uint column_word = BASE_WORD(packed) + (column * PACKED_COLUMN + term) / uint(WORD_TERMS);
                float products[BLOCK_ROWS * ROW_PARTS];
                [[unroll]] for (uint i = 0u; i < BLOCK_ROWS * ROW_PARTS; ++i) {
                    products[i] = 0.0;
                }
                [[unroll]] for (uint i = 0u; i < CHUNK_WORDS; ++i) {
                    bool is_there = CHUNKS_ARE_WHOLE || term + i * uint(WORD_TERMS) < end;
                    uint word = is_there ? words_packed[column_word + i] : 0u;
                    [[unroll]] for (uint j = 0u; j < uint(WORD_TERMS); ++j) {
#if WEIGHT_BITS == 8
                        float weight = float(bitfieldExtract(int(WEIGHT_BYTES(word, 0u)), int(j) * 8, 8));
#else
                        float weight = float(int(FLIPPED(word) >> (j * uint(WEIGHT_BITS)) & WEIGHT_MASK));
#endif
                        [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                            [[unroll]] for (uint part = 0u; part < ROW_PARTS; ++part) {
                                uint at = row * ROW_PARTS + part;
                                products[at] = exact_product_plus(parts[(row * CHUNK + i * uint(WORD_TERMS) + j) * ROW_PARTS + part], weight, products[at]);
                            }
                        }
                    }
                }
                [[unroll]] for (uint i = 0u; i < BLOCK_ROWS * ROW_PARTS; ++i) {
                    products[i] = exact_product_plus(-less, part_sums[i], products[i]);
                }
                [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                    float number = exact_product_plus(products[row * 2], 4096.0, products[row * 2 + 1]);
                    if (rests[row] != 0u) {
                        precise float with_rest = number
                            + rest_of_chunk(min(first_row + row, parameters.rows - 1u), column, 0u, term, rests[row], row_scales[row]);
                        number = with_rest;
                    }
                    float sum = rounded_sum(sums[row], value_of_chunk(number, row_units[row], scale));
                    BRING_TO_THE_FRONT(sums, row, sum)
                }
#endif
            } while (++each < GROUP_COLUMNS / INVOCATIONS);
            term += CHUNK;
        } while (term < end);
        [[unroll]] for (uint i = 0u; i < MOST_COLUMNS * BLOCK_ROWS; ++i) { totals[i] = rounded_sum(totals[i], sums[i]); }
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
