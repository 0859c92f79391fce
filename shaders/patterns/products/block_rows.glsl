// Products of few rows with packed weights, on GPUs. An invocation has BLOCK_COLUMNS columns and a segment of their terms, of BLOCK_ROWS
// rows; a work group has INVOCATIONS / SEGMENTS_BESIDE times as many columns with SEGMENTS_BESIDE segments each, and adds the segments'
// sums in their order itself, so that there are neither totals in memory nor a second launch.
//
// Each weight is read once, by neighbouring invocations from neighbouring words; what is read goes through shared memory as it is to the
// invocation whose column it belongs to, with what all of them need of the left operand. Scales and zeros are few: an invocation reads
// those of its own columns. What is loaded for the next stage waits in registers meanwhile.
//
// Loops stay loops where their bodies are long: what does not fit into the caches of instructions runs at half of the speed or less.
//
// The compile script passes BLOCK_ROWS, BLOCK_COLUMNS, INVOCATIONS, LINE_VECTORS (vectors of 16 bytes of a column in a stage), UNIT_WORDS
// (1, 2 or 4: words of a column that are taken at once), LEFT_LINES (rows, times segments beside one another, that a stage has room for)
// and what block_products.glsl is passed.
#include "products/block_products.glsl"

layout(local_size_x = INVOCATIONS) in;

// How many segments are computed beside one another; LEFT_LINES are at least as many times BLOCK_ROWS.
layout(constant_id = 20) const uint SEGMENTS_BESIDE = 1u;
// Whether a column's vectors lie at multiples of 16 bytes.
layout(constant_id = 21) const bool PACKED_HAS_VECTORS = false;
// Of a line in a stage: what has a scale and a zero of its own.
layout(constant_id = 22) const uint ENTRIES = 1u;
// Whether all segments are whole, and blocks parts of them: then nothing is looked for at its end.
layout(constant_id = 23) const bool SEGMENTS_ARE_WHOLE = false;
// How many scales a column has in a stage, where they can be loaded at once: 4 neighbours, or 1; 0 where they are loaded one by one.
layout(constant_id = 24) const uint SCALES_AT_ONCE = 0u;
// How many zeros that a column has in a stage lie in a word: they are loaded at once.
layout(constant_id = 28) const uint ZEROS_AT_ONCE = 1u;

#define VECTOR_TERMS (4 * WORD_TERMS)
#define UNIT_TERMS (UNIT_WORDS * WORD_TERMS)
#define STAGE_TERMS (LINE_VECTORS * VECTOR_TERMS)
#define LINE (LINE_VECTORS + 1) // neighbouring lines lie in different banks
#define LINES (INVOCATIONS * BLOCK_COLUMNS)
#define MOST_ENTRIES (STAGE_TERMS / (WEIGHT_BITS == 8 ? 8 : 16))
// Words that a column has in the second plane for a stage, at most and as they are, and bits for a word of the first plane.
#if WEIGHT_BITS == 8
#define MOST_HIGH 1
#else
#define MOST_HIGH (STAGE_TERMS * (WEIGHT_BITS / 2) / 32)
#endif
#define STAGE_HIGH (STAGE_TERMS * HIGH_BITS / 32u)
#define WORD_HIGH (uint(WORD_TERMS) * HIGH_BITS)
#define LEFT_FOURS (STAGE_TERMS / 4)
#define LEFT_LINE (LEFT_FOURS + 1)
#define LEFT_LOADS ((LEFT_LINES * LEFT_FOURS + INVOCATIONS - 1) / INVOCATIONS)
#define SUMS (BLOCK_ROWS * BLOCK_COLUMNS)
#define LINES_VECTORS (LINES * LINE)
#define SUMS_VECTORS (INVOCATIONS * SUMS / 4)

uint select(bool is_second, uint first, uint second) { return is_second ? second : first; }
uvec2 select(bool is_second, uvec2 first, uvec2 second) { return is_second ? second : first; }
uvec4 select(bool is_second, uvec4 first, uvec4 second) { return is_second ? second : first; }

// Lines of packed weights; sums are exchanged here, too.
shared uvec4 lines[LINES_VECTORS > SUMS_VECTORS ? LINES_VECTORS : SUMS_VECTORS];
shared vec4 left_lines[(LEFT_LOADS * INVOCATIONS + LEFT_FOURS - 1) / LEFT_FOURS * LEFT_LINE]; // as many as are loaded at once
#define EXCHANGED(number) lines[((number) * INVOCATIONS + invocation) / 4u][invocation % 4u]
#if LOOKS_AT_DENORMALS
shared uint left_lowest;
shared uint scale_lowest;
shared uint difference_lowest;
#endif

// A sum by its number: an array whose indices are not known would lie in memory.
#define FIND_TOTAL(total, number) \
    uint total = 0u; \
    [[unroll]] for (uint i = 0u; i < SUMS; ++i) { \
        total = (number) == i ? totals[i] : total; \
    }

// Where there is a gate and BLOCK_COLUMNS is 1, half of the invocations have its columns, and the others those that it multiplies.
#if defined(IS_GATED) && BLOCK_COLUMNS == 1
#define HAS_SIDES
#define SIDES 2
#else
#define SIDES 1
#endif
#define SIDE_INVOCATIONS (INVOCATIONS / SIDES)

// The column and the first term of a line, of which an invocation has one for each of its columns; of columns outside those of the last.
#ifdef IS_GATED
#define RESULTS BLOCK_ROWS
#define RESULT_COLUMNS 1
#define COLUMNS_ACROSS across
#define COLUMN(number, invocation) (first_column + (invocation) % SIDE_INVOCATIONS % across)
#ifdef HAS_SIDES // both are loaded, since a branch would be waited for
#define SCALES_AT(form, bits, number, index) \
    select(is_up, form##_scale[(BASE(bits, scale) + (index)) >> 2u], form##_scale_up[(BASE(bits, scale_up) + (index)) >> 2u])
#define SCALE_WORD(number, word) select(is_up, words_scale[BASE_WORD(scale) + (word)], words_scale_up[BASE_WORD(scale_up) + (word)])
#define ZERO_WORD(number, word) select(is_up, words_zero[BASE_WORD(zero) + (word)], words_zero_up[BASE_WORD(zero_up) + (word)])
#define OWN_PACKED(form, shift, number, word) \
    select(is_up, form##_packed[(BASE_WORD(packed) + (word)) >> shift], form##_packed_up[(BASE_WORD(packed_up) + (word)) >> shift])
#define OWN_NUMBER(number) uint(is_up)
#define LOADED_SIDE(i) ((i) * 2u / LINE_VECTORS)
#else
#define SCALES_AT(form, bits, number, index) \
    (IS_UP(number) ? form##_scale_up[(BASE(bits, scale_up) + (index)) >> 2u] : form##_scale[(BASE(bits, scale) + (index)) >> 2u])
#define SCALE_WORD(number, word) (IS_UP(number) ? words_scale_up[BASE_WORD(scale_up) + (word)] : words_scale[BASE_WORD(scale) + (word)])
#define ZERO_WORD(number, word) (IS_UP(number) ? words_zero_up[BASE_WORD(zero_up) + (word)] : words_zero[BASE_WORD(zero) + (word)])
#endif
#define PACKED_AT(form, number, index) (IS_UP(number) ? form##_packed_up[index] : form##_packed[index])
#define BASE_PACKED(number) (IS_UP(number) ? BASE_WORD(packed_up) : BASE_WORD(packed))
#else
#define RESULTS SUMS
#define RESULT_COLUMNS BLOCK_COLUMNS
#define COLUMNS_ACROSS (across * BLOCK_COLUMNS)
#define COLUMN(number, invocation) (first_column + (number) * across + (invocation) % across)
#define SCALES_AT(form, bits, number, index) form##_scale[(BASE(bits, scale) + (index)) >> 2u]
#define SCALE_WORD(number, word) words_scale[BASE_WORD(scale) + (word)]
#define ZERO_WORD(number, word) words_zero[BASE_WORD(zero) + (word)]
#define PACKED_AT(form, number, index) form##_packed[index]
#define BASE_PACKED(number) BASE_WORD(packed)
#endif
#ifndef HAS_SIDES
#define OWN_PACKED(form, shift, number, word) PACKED_AT(form, number, (BASE_PACKED(number) + (word)) >> shift)
#define OWN_NUMBER(number) (number)
#define LOADED_SIDE(i) ((i) / LINE_VECTORS)
#endif
#define RESULT_IS_HERE (invocation < across)
#define LINE_COLUMN(line) min(COLUMN((line) / INVOCATIONS, (line) % INVOCATIONS), parameters.columns - 1u)
#define LINE_SEGMENT(line) (iteration + min((line) % SIDE_INVOCATIONS / across, SEGMENTS_BESIDE - 1u))
// The first term of a line; of segments that there are not, that of the last one, where nothing is looked for at its end.
#define LINE_TERM(line) ((SEGMENTS_ARE_WHOLE ? min(LINE_SEGMENT(line), SEGMENTS - 1u) : LINE_SEGMENT(line)) * SEGMENT)

// Where what an invocation loads lies in the first stage of an iteration. What follows stands in main() as it is: arrays that functions
// share are kept in memory by some drivers.
#define FIND_BEGINNINGS \
    [[unroll]] for (uint i = 0u; i < LINE_VECTORS * BLOCK_COLUMNS; ++i) { \
        uint number = i * INVOCATIONS + invocation; \
        uint line = number / LINE_VECTORS; \
        uint term = LINE_TERM(line) + number % LINE_VECTORS * VECTOR_TERMS; \
        first_words[i] = BASE_PACKED(LOADED_SIDE(i)) + (LINE_COLUMN(line) * PACKED_COLUMN + term) / uint(WORD_TERMS); \
    } \
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) { \
        uint line = j * INVOCATIONS + invocation; \
        first_scales[j] = scale_index(LINE_COLUMN(line), LINE_TERM(line)); \
        first_zeros[j] = zero_index(LINE_COLUMN(line), LINE_TERM(line)); \
    } \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        uint line = (i * INVOCATIONS + invocation) / LEFT_FOURS; \
        uint segment = iteration + line / BLOCK_ROWS; \
        first_rows[i] = min(first_row + line % BLOCK_ROWS, parameters.rows - 1u); \
        first_terms[i] = (SEGMENTS_ARE_WHOLE ? min(segment, SEGMENTS - 1u) : segment) * SEGMENT \
            + (i * INVOCATIONS + invocation) % LEFT_FOURS * 4u; \
    }

// Four scales as they are loaded, and each of them.
#define SCALE_PAIRS(number, index) uvec4(SCALES_AT(pairs, 16, number, index), 0u, 0u)
#define SCALE_OF_PAIR(four, i) scale_of(four[(i) / 2u], i)
#if OPERAND_BITS == 16
#define LOADED_SCALES SCALE_PAIRS
#define SCALE_OF_FOUR SCALE_OF_PAIR
#else
#define LOADED_SCALES(number, index) (SCALES_ARE_HALVES ? SCALE_PAIRS(number, index) : SCALES_AT(fours, 32, number, index))
#define SCALE_OF_FOUR(four, i) (SCALES_ARE_HALVES ? SCALE_OF_PAIR(four, i) : four[i])
#endif

// Where a stage's block number i has its scale and zero, of a column.
#define BLOCK_TERM(j, stage, i) min(LINE_TERM((j) * INVOCATIONS + invocation) + (stage) + (i) * BLOCK, parameters.terms - 1u)
#define BLOCK_SCALE(j, stage, i) \
    (SEGMENTS_ARE_WHOLE ? first_scales[j] + ((stage) + (i) * BLOCK) / SCALE_TERM_BLOCK * SCALE_TERM \
                        : scale_index(LINE_COLUMN((j) * INVOCATIONS + invocation), BLOCK_TERM(j, stage, i)))
#define BLOCK_ZERO(j, stage, i) \
    (SEGMENTS_ARE_WHOLE ? first_zeros[j] + ((stage) + (i) * BLOCK) / ZERO_TERM_BLOCK * ZERO_TERM \
                        : zero_index(LINE_COLUMN((j) * INVOCATIONS + invocation), BLOCK_TERM(j, stage, i)))

// A column's words of the second plane, from its first word on.
#define HIGH_OF_COLUMN(j, stage, i) \
    (LINE_COLUMN((j) * INVOCATIONS + invocation) * PACKED_COLUMN / uint(WORD_TERMS) \
     + high_word(LINE_TERM((j) * INVOCATIONS + invocation) + (stage)) + (i))
#define LOAD_HIGH(stage) \
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) { \
        [[unroll]] for (uint i = 0u; i < MOST_HIGH; ++i) { \
            if (PACKED_HAS_VECTORS && SEGMENTS_ARE_WHOLE && STAGE_HIGH % 4u == 0u) { \
                if (i % 4u == 0u && i < STAGE_HIGH) { \
                    uvec4 vector = OWN_PACKED(fours, 2u, j, HIGH_OF_COLUMN(j, stage, i)); \
                    [[unroll]] for (uint k = 0u; k < 4u; ++k) { \
                        loaded_high[j * MOST_HIGH + min(i + k, MOST_HIGH - 1u)] = vector[k]; \
                    } \
                } \
            } else if (i < STAGE_HIGH) { \
                uint term = LINE_TERM(j * INVOCATIONS + invocation) + (stage) + i * 32u / max(HIGH_BITS, 1u); \
                loaded_high[j * MOST_HIGH + i] = term < parameters.terms ? OWN_PACKED(words, 0u, j, HIGH_OF_COLUMN(j, stage, i)) : 0u; \
            } \
        } \
    }

// The bits of the second plane that belong to an invocation's word number i of a unit; and those of the next unit move up.
#define HIGH_OF_WORD(j, i) (HIGH_BITS == 0u ? 0u : high[(j) * MOST_HIGH + (i) * WORD_HIGH / 32u] >> ((i) * WORD_HIGH % 32u))
#define MOVE_HIGH \
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) { \
        [[unroll]] for (uint i = 0u; i < MOST_HIGH; ++i) { \
            if (HIGH_BITS != 0u && i < STAGE_HIGH) { \
                uint at = j * MOST_HIGH + i; \
                uint bits = UNIT_WORDS * WORD_HIGH % 32u; /* no shift is by 32 or more: what it gives is not defined */ \
                uint next = j * MOST_HIGH + min(i + max(UNIT_WORDS * WORD_HIGH / 32u, 1u), MOST_HIGH - 1u); \
                high[at] = bits == 0u ? high[next] : high[at] >> bits | high[next] << (32u - bits) % 32u; \
            } \
        } \
    }

#define LOAD_STAGE(stage) \
    LOAD_HIGH(stage) \
    [[unroll]] for (uint i = 0u; i < LINE_VECTORS * BLOCK_COLUMNS; ++i) { \
        uint word = first_words[i] + (stage) / uint(WORD_TERMS); \
        uint number = i * INVOCATIONS + invocation; \
        uint term = LINE_TERM(number / LINE_VECTORS) + (stage) + number % LINE_VECTORS * VECTOR_TERMS; \
        if (PACKED_HAS_VECTORS && SEGMENTS_ARE_WHOLE) { \
            loaded[i] = PACKED_AT(fours, LOADED_SIDE(i), word >> 2u); \
        } else { \
            loaded[i] = uvec4(0u); \
            [[unroll]] for (uint j = 0u; j < 4u; ++j) { \
                if (term + j * WORD_TERMS < parameters.terms) { \
                    loaded[i][j] = PACKED_AT(words, LOADED_SIDE(i), word + j); \
                } \
            } \
        } \
    } \
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) { \
        if (SCALES_AT_ONCE == 4u) { \
            loaded_fours[j] = LOADED_SCALES(j, first_scales[j] + (stage) / BLOCK); \
        } \
        [[unroll]] for (uint i = 0u; i < MOST_ENTRIES; ++i) { \
            if (i < ENTRIES) { \
                uint entry = j * MOST_ENTRIES + i; \
                if (SCALES_AT_ONCE == 0u || (SCALES_AT_ONCE == 1u && i == 0u)) { \
                    loaded_scales[entry] = SCALE_WORD(j, scale_word(BLOCK_SCALE(j, stage, i))); \
                } \
                if (ZERO_KIND != ZERO_IS_NUMBER && i % ZEROS_AT_ONCE == 0u) { \
                    loaded_zeros[entry] = ZERO_WORD(j, zero_word(BLOCK_ZERO(j, stage, i))); \
                } \
            } \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        if (i * INVOCATIONS < SEGMENTS_BESIDE * BLOCK_ROWS * LEFT_FOURS) { \
            uint end = SEGMENTS_ARE_WHOLE ? 0xffffffffu : parameters.terms; \
            loaded_left[i] = loaded_four(first_rows[i], first_terms[i] + (stage), end); \
        } \
    }

#if LOOKS_AT_DENORMALS
#define LOOK_AT_LEFT(bits) own_left_lowest = min(own_left_lowest, lowest_of_four(bits));
#define LOOK_AT_SCALE(entry) own_scale_lowest = min(own_scale_lowest, lowest_of((entry).x));
#else
#define LOOK_AT_LEFT(bits)
#define LOOK_AT_SCALE(entry)
#endif

#define PUT_STAGE(stage) \
    [[unroll]] for (uint i = 0u; i < MOST_HIGH * BLOCK_COLUMNS; ++i) { \
        high[i] = loaded_high[i]; \
    } \
    [[unroll]] for (uint i = 0u; i < LINE_VECTORS * BLOCK_COLUMNS; ++i) { \
        uint number = i * INVOCATIONS + invocation; \
        lines[number / LINE_VECTORS * LINE + number % LINE_VECTORS] = loaded[i]; \
    } \
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) { \
        [[unroll]] for (uint i = 0u; i < MOST_ENTRIES; ++i) { \
            if (i < ENTRIES) { \
                uint entry = j * MOST_ENTRIES + i; \
                uint scale = loaded_scales[SCALES_AT_ONCE == 1u ? j * MOST_ENTRIES : entry]; \
                uint zero = loaded_zeros[entry - i % ZEROS_AT_ONCE]; \
                scales[entry] = SCALES_AT_ONCE == 4u ? SCALE_OF_FOUR(loaded_fours[j], i % 4u) : scale_of(scale, BLOCK_SCALE(j, stage, i)); \
                zeros[entry] = ZERO_KIND == ZERO_IS_NUMBER ? ZERO_NUMBER : zero_of(zero, BLOCK_ZERO(j, stage, i)); \
            } \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        uint number = i * INVOCATIONS + invocation; \
        if (i * INVOCATIONS < SEGMENTS_BESIDE * BLOCK_ROWS * LEFT_FOURS) { \
            uvec4 four = four_of(loaded_left[i]); \
            LOOK_AT_LEFT(four) \
            left_lines[number / LEFT_FOURS * LEFT_LINE + number % LEFT_FOURS] = uintBitsToFloat(four); \
        } \
    }

// What a column's next block has, into `entry`: those behind it move up, since arrays whose indices are not known lie in memory.
#define TAKE_ENTRY(column) \
    entry[column] = entry_of(scales[(column) * MOST_ENTRIES], zeros[(column) * MOST_ENTRIES]); \
    LOOK_AT_SCALE(entry[column]) \
    [[unroll]] for (uint next_ = 1u; next_ < MOST_ENTRIES; ++next_) { \
        if (next_ < ENTRIES) { \
            scales[(column) * MOST_ENTRIES + next_ - 1u] = scales[(column) * MOST_ENTRIES + next_]; \
            zeros[(column) * MOST_ENTRIES + next_ - 1u] = zeros[(column) * MOST_ENTRIES + next_]; \
        } \
    }

// An invocation's words of a unit.
#if UNIT_WORDS == 4
#define LOAD_WORDS(into, unit) \
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) { \
        uvec4 vector = lines[(j * INVOCATIONS + invocation) * LINE + (unit) / VECTOR_TERMS]; \
        [[unroll]] for (uint i = 0u; i < 4u; ++i) { \
            into[j * UNIT_WORDS + i] = vector[i]; \
        } \
    }
#else
#define LOAD_WORDS(into, unit) \
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) { \
        uint line = (j * INVOCATIONS + invocation) * LINE + (unit) / VECTOR_TERMS; \
        [[unroll]] for (uint i = 0u; i < UNIT_WORDS; ++i) { \
            into[j * UNIT_WORDS + i] = lines[line][(unit) / WORD_TERMS % 4u + i]; \
        } \
    }
#endif

void main()
{
    uint group = work_group_index();
    if (group >= parameters.work_items) {
        return;
    }
    uint invocation = index_in_group();
    uint across = (SIDE_INVOCATIONS / SEGMENTS_BESIDE) & ~1u; // neighbours may share a word
    uint own = invocation % SIDE_INVOCATIONS;
    uint beside = min(own / across, SEGMENTS_BESIDE - 1u); // what is left over does what the last ones do
#ifdef HAS_SIDES
    bool is_up = invocation >= SIDE_INVOCATIONS;
#endif
    // Work groups that run at one time read the same weights.
    uint first_row = group % parameters.row_tiles * BLOCK_ROWS;
    uint first_column = group / parameters.row_tiles * COLUMNS_ACROSS;
    uvec4 loaded[LINE_VECTORS * BLOCK_COLUMNS];
    uvec4 loaded_fours[BLOCK_COLUMNS];
    uint loaded_scales[MOST_ENTRIES * BLOCK_COLUMNS];
    uint loaded_zeros[MOST_ENTRIES * BLOCK_COLUMNS];
    uvec4 loaded_left[LEFT_LOADS];
    uint loaded_high[MOST_HIGH * BLOCK_COLUMNS];
    uint high[MOST_HIGH * BLOCK_COLUMNS];
    uint first_words[LINE_VECTORS * BLOCK_COLUMNS];
    uint first_scales[BLOCK_COLUMNS];
    uint first_zeros[BLOCK_COLUMNS];
    uint scales[MOST_ENTRIES * BLOCK_COLUMNS];
    uint zeros[MOST_ENTRIES * BLOCK_COLUMNS];
    uint first_rows[LEFT_LOADS];
    uint first_terms[LEFT_LOADS];
    uint totals[SUMS];
    [[unroll]] for (uint number = 0u; number < SUMS; ++number) {
        totals[number] = 0u;
    }
    for (uint iteration = 0u; iteration < SEGMENTS; iteration += SEGMENTS_BESIDE) {
        float sums[SUMS];
        [[unroll]] for (uint number = 0u; number < SUMS; ++number) {
            sums[number] = 0.0;
        }
#if LOOKS_AT_DENORMALS
        uint own_left_lowest = NO_LOWEST;
        uint own_scale_lowest = NO_LOWEST;
        uint own_difference_lowest = NO_LOWEST;
        if (invocation == 0u) {
            left_lowest = NO_LOWEST;
            scale_lowest = NO_LOWEST;
            difference_lowest = NO_LOWEST;
        }
#endif
        uint longest = min(SEGMENT, parameters.terms - iteration * SEGMENT);
        FIND_BEGINNINGS
        LOAD_STAGE(0u)
        [[dont_unroll]] for (uint stage = 0u; stage < longest; stage += STAGE_TERMS) {
            barrier(); // all are through with what was there
            PUT_STAGE(stage)
            barrier();
            if (stage + STAGE_TERMS < longest) {
                LOAD_STAGE(stage + STAGE_TERMS)
            }
            uvec2 entry[BLOCK_COLUMNS];
            uint words[UNIT_WORDS * BLOCK_COLUMNS];
            uint next_words[UNIT_WORDS * BLOCK_COLUMNS];
            LOAD_WORDS(next_words, 0u)
            [[dont_unroll]] for (uint unit = 0u; unit < STAGE_TERMS; unit += UNIT_TERMS) {
                [[unroll]] for (uint i = 0u; i < UNIT_WORDS * BLOCK_COLUMNS; ++i) {
                    words[i] = next_words[i];
                }
                // The words of the next unit are on their way meanwhile; behind the last one they are a line's filling.
                LOAD_WORDS(next_words, unit + UNIT_TERMS)
                [[unroll]] for (uint i = 0u; i < UNIT_WORDS; ++i) {
                    float weights[WORD_TERMS * BLOCK_COLUMNS];
                    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                        if (i * WORD_TERMS % min(BLOCK, UNIT_TERMS) == 0u && (BLOCK <= UNIT_TERMS || unit % BLOCK == 0u)) {
                            TAKE_ENTRY(j)
                        }
                        WEIGHTS_OF(words[j * UNIT_WORDS + i], HIGH_OF_WORD(j, i), entry[j], weights, j * WORD_TERMS)
                    }
                    [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                        [[unroll]] for (uint four = 0u; four < WORD_TERMS / 4; ++four) {
                            uint at = (beside * BLOCK_ROWS + row) * LEFT_LINE + unit / 4u + i * (WORD_TERMS / 4u) + four;
                            vec4 a = left_lines[at];
                            [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                                [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                                    uint number = row * BLOCK_COLUMNS + j;
                                    sums[number] = product_plus(a[k], weights[j * WORD_TERMS + 4u * four + k], sums[number]);
                                }
                            }
                        }
                    }
                }
                MOVE_HIGH
            }
        }
        bool plain = true;
#if LOOKS_AT_DENORMALS
        atomicMin(left_lowest, own_left_lowest);
        atomicMin(scale_lowest, own_scale_lowest);
        atomicMin(difference_lowest, ZERO_KIND == ZERO_IS_FLOAT ? own_difference_lowest : 0u);
#endif
        barrier(); // all are through with the lines
#if LOOKS_AT_DENORMALS
        plain = is_free_of_denormals(left_lowest, scale_lowest, difference_lowest);
#endif
        uint first = (iteration + beside) * SEGMENT;
        [[dont_unroll]] for (uint number = 0u; number < SUMS; ++number) {
            float known = 0.0;
            [[unroll]] for (uint i = 0u; i < SUMS; ++i) {
                known = number == i ? sums[i] : known;
            }
            uint row = first_row + number / BLOCK_COLUMNS;
            uint column = COLUMN(number % BLOCK_COLUMNS, invocation);
            uint sum = floatBitsToUint(known);
            bool is_inside = row < parameters.rows && column < parameters.columns && first < parameters.terms;
            if (is_inside && !(plain && is_finite(known))) {
                sum = exact_sum(row, column, OWN_NUMBER(number % BLOCK_COLUMNS), first, min(first + SEGMENT, parameters.terms));
            }
            EXCHANGED(number) = sum;
        }
        barrier();
        if (own < across) {
            uint count = min(SEGMENTS_BESIDE, SEGMENTS - iteration);
            [[unroll]] for (uint number = 0u; number < SUMS; ++number) {
                for (uint segment = 0u; segment < count; ++segment) {
                    uint at = number * INVOCATIONS + segment * across + invocation;
                    uint next = lines[at / 4u][at % 4u];
                    totals[number] = iteration + segment == 0u ? next : sum_plus(totals[number], next);
                }
            }
        }
    }
    barrier(); // all have read the sums
#ifdef HAS_SIDES
    uint column = COLUMN(0u, invocation);
    EXCHANGED(0u) = own < across && column < parameters.columns ? finished(totals[0], first_row, column) : 0u;
    barrier();
    uint gate = EXCHANGED(0u);
    uint multiplied = lines[(invocation % SIDE_INVOCATIONS + SIDE_INVOCATIONS) / 4u][invocation % 4u];
    barrier();
#endif
    [[dont_unroll]] for (uint number = 0u; number < RESULTS; ++number) {
        uint row = first_row + number / RESULT_COLUMNS;
        uint column = COLUMN(number % RESULT_COLUMNS, invocation);
        if (RESULT_IS_HERE && row < parameters.rows && column < parameters.columns) {
            FIND_TOTAL(total, number * (SUMS / RESULTS))
#ifdef HAS_SIDES
            uint result = gated(gate, multiplied);
#else
            uint result = finished(total, row, column);
#endif
#if defined(IS_GATED) && !defined(HAS_SIDES)
            FIND_TOTAL(total_up, number * 2u + 1u)
            result = gated(result, finished(total_up, row, column));
#endif
            if (OUTPUT_HAS_PAIRS) {
                EXCHANGED(number) = result;
            } else {
                STORE(OPERAND_BITS, words_output, output_index(row, column), result);
            }
        }
    }
    if (OUTPUT_HAS_PAIRS) {
        barrier();
        for (uint number = 0u; number < RESULTS; ++number) {
            uint row = first_row + number / RESULT_COLUMNS;
            uint column = COLUMN(number % RESULT_COLUMNS, invocation);
            if (RESULT_IS_HERE && invocation % 2u == 0u && row < parameters.rows && column < parameters.columns) {
                uvec2 pair = uvec2(EXCHANGED(number), lines[(number * INVOCATIONS + invocation) / 4u][invocation % 4u + 1u]);
                words_output[output_index(row, column) >> 1u] = pair.x | pair.y << 16u;
            }
        }
    }
}
