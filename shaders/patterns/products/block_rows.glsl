// Products of few rows with packed weights, on GPUs. An invocation has BLOCK_COLUMNS columns and a segment of their terms, of BLOCK_ROWS
// rows; a work group has INVOCATIONS / SEGMENTS_BESIDE times as many columns with SEGMENTS_BESIDE segments each, and adds the segments'
// sums in their order itself, so that there are neither totals in memory nor a second launch.
//
// Each weight is read once, by neighbouring invocations from neighbouring words; what is read goes through shared memory as it is to the
// invocation whose column it belongs to, with what all of them need of the left operand. What is loaded for the next stage waits in
// registers meanwhile.
//
// Loops stay loops where their bodies are long: what does not fit into the caches of instructions runs at half of the speed or less.
//
// The compile script passes BLOCK_ROWS, BLOCK_COLUMNS, INVOCATIONS, LINE_VECTORS (vectors of 16 bytes of a column in a stage), UNIT_WORDS
// (1, 2 or 4: words of a column that are taken at once), LEFT_LINES (rows, times segments beside one another, that a stage has room for)
// and what block_products.glsl is passed.
#include "products/block_products.glsl"

layout(local_size_x = INVOCATIONS) in;

// How many segments are computed beside one another: a power of two; LEFT_LINES are at least as many times BLOCK_ROWS.
layout(constant_id = 20) const uint SEGMENTS_BESIDE = 1u;
// Whether a column's vectors lie at multiples of 16 bytes.
layout(constant_id = 21) const bool PACKED_HAS_VECTORS = false;
// Of a line in a stage: what has a scale and a zero of its own.
layout(constant_id = 22) const uint ENTRIES = 1u;
// Whether all segments are whole, and blocks parts of them: then nothing is looked for at its end.
layout(constant_id = 23) const bool SEGMENTS_ARE_WHOLE = false;

#define VECTOR_TERMS (4 * WORD_TERMS)
#define UNIT_TERMS (UNIT_WORDS * WORD_TERMS)
#define STAGE_TERMS (LINE_VECTORS * VECTOR_TERMS)
#define LINE (LINE_VECTORS + 1) // neighbouring lines lie in different banks
#define LINES (INVOCATIONS * BLOCK_COLUMNS)
#define MOST_ENTRIES (STAGE_TERMS / 16)
#define LEFT_FOURS (STAGE_TERMS / 4)
#define LEFT_LINE (LEFT_FOURS + 1)
#define LEFT_LOADS ((LEFT_LINES * LEFT_FOURS + INVOCATIONS - 1) / INVOCATIONS)
#define SUMS (BLOCK_ROWS * BLOCK_COLUMNS)
#define LINES_VECTORS (LINES * LINE)
#define SUMS_VECTORS (INVOCATIONS * SUMS / 4)

// Lines of packed weights; sums are exchanged here, too.
shared uvec4 lines[LINES_VECTORS > SUMS_VECTORS ? LINES_VECTORS : SUMS_VECTORS];
shared vec2 entries[LINES * (MOST_ENTRIES + 1)];
shared vec4 left_lines[LEFT_LINES * LEFT_LINE];
#define EXCHANGED(number) lines[((number) * INVOCATIONS + invocation) / 4u][invocation % 4u]
#if LOOKS_AT_DENORMALS
shared uint left_lowest;
shared uint scale_lowest;
shared uint difference_lowest;
#endif

#define ENTRY_LINE (ENTRIES | 1u)

// The column and the first term of a line, of which an invocation has one for each of its columns; of columns outside those of the last.
#define COLUMN(number, invocation) (first_column + (number) * across + (invocation) % across)
#define LINE_COLUMN(line) min(COLUMN((line) / INVOCATIONS, (line) % INVOCATIONS), parameters.columns - 1u)
#define LINE_SEGMENT(line) (iteration + (line) % INVOCATIONS / across)
// The first term of a line; of segments that there are not, that of the last one, where nothing is looked for at its end.
#define LINE_TERM(line) ((SEGMENTS_ARE_WHOLE ? min(LINE_SEGMENT(line), SEGMENTS - 1u) : LINE_SEGMENT(line)) * SEGMENT)

// Where what an invocation loads lies in the first stage of an iteration. What follows stands in main() as it is: arrays that functions
// share are kept in memory by some drivers.
#define FIND_BEGINNINGS \
    [[unroll]] for (uint i = 0u; i < LINE_VECTORS * BLOCK_COLUMNS; ++i) { \
        uint number = i * INVOCATIONS + invocation; \
        uint line = number / LINE_VECTORS; \
        uint term = LINE_TERM(line) + number % LINE_VECTORS * VECTOR_TERMS; \
        first_words[i] = BASE_WORD(packed) + (LINE_COLUMN(line) * PACKED_COLUMN + term) / uint(WORD_TERMS); \
    } \
    [[unroll]] for (uint i = 0u; i < MOST_ENTRIES * BLOCK_COLUMNS; ++i) { \
        if (i < ENTRIES * BLOCK_COLUMNS) { \
            uint line = (i * INVOCATIONS + invocation) / ENTRIES; \
            first_scales[i] = scale_index(LINE_COLUMN(line), LINE_TERM(line)); \
            first_zeros[i] = zero_index(LINE_COLUMN(line), LINE_TERM(line)); \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        uint line = (i * INVOCATIONS + invocation) / LEFT_FOURS; \
        uint segment = iteration + line / BLOCK_ROWS; \
        first_rows[i] = min(first_row + line % BLOCK_ROWS, parameters.rows - 1u); \
        first_terms[i] = (SEGMENTS_ARE_WHOLE ? min(segment, SEGMENTS - 1u) : segment) * SEGMENT \
            + (i * INVOCATIONS + invocation) % LEFT_FOURS * 4u; \
    }

#define LOAD_STAGE(stage) \
    [[unroll]] for (uint i = 0u; i < LINE_VECTORS * BLOCK_COLUMNS; ++i) { \
        uint word = first_words[i] + (stage) / uint(WORD_TERMS); \
        uint number = i * INVOCATIONS + invocation; \
        uint term = LINE_TERM(number / LINE_VECTORS) + (stage) + number % LINE_VECTORS * VECTOR_TERMS; \
        if (PACKED_HAS_VECTORS && SEGMENTS_ARE_WHOLE) { \
            loaded[i] = fours_packed[word >> 2u]; \
        } else { \
            loaded[i] = uvec4(0u); \
            [[unroll]] for (uint j = 0u; j < 4u; ++j) { \
                if (term + j * WORD_TERMS < parameters.terms) { \
                    loaded[i][j] = words_packed[word + j]; \
                } \
            } \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < MOST_ENTRIES * BLOCK_COLUMNS; ++i) { \
        if (i < ENTRIES * BLOCK_COLUMNS) { \
            uint number = i * INVOCATIONS + invocation; \
            uint further = (stage) + number % ENTRIES * BLOCK; \
            if (SEGMENTS_ARE_WHOLE) { \
                loaded_scales[i] = scale_at(first_scales[i] + further / SCALE_TERM_BLOCK * SCALE_TERM); \
                loaded_zeros[i] = zero_at(first_zeros[i] + further / ZERO_TERM_BLOCK * ZERO_TERM); \
            } else { \
                uint line = number / ENTRIES; \
                uint term = min(LINE_TERM(line) + further, parameters.terms - 1u); \
                loaded_scales[i] = scale_at(scale_index(LINE_COLUMN(line), term)); \
                loaded_zeros[i] = zero_at(zero_index(LINE_COLUMN(line), term)); \
            } \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        if (i * INVOCATIONS + invocation < SEGMENTS_BESIDE * BLOCK_ROWS * LEFT_FOURS) { \
            uint end = SEGMENTS_ARE_WHOLE ? 0xffffffffu : parameters.terms; \
            loaded_left[i] = left_four(first_rows[i], first_terms[i] + (stage), end); \
        } \
    }

#if LOOKS_AT_DENORMALS
#define LOOK_AT_LEFT(bits) own_left_lowest = min(own_left_lowest, lowest_of_four(bits));
#define LOOK_AT_SCALE(number) own_scale_lowest = min(own_scale_lowest, lowest_of(floatBitsToUint(number)));
#else
#define LOOK_AT_LEFT(bits)
#define LOOK_AT_SCALE(number)
#endif

#define PUT_STAGE \
    [[unroll]] for (uint i = 0u; i < LINE_VECTORS * BLOCK_COLUMNS; ++i) { \
        uint number = i * INVOCATIONS + invocation; \
        lines[number / LINE_VECTORS * LINE + number % LINE_VECTORS] = loaded[i]; \
    } \
    [[unroll]] for (uint i = 0u; i < MOST_ENTRIES * BLOCK_COLUMNS; ++i) { \
        if (i < ENTRIES * BLOCK_COLUMNS) { \
            uint number = i * INVOCATIONS + invocation; \
            vec2 entry = entry_of(loaded_scales[i], loaded_zeros[i]); \
            LOOK_AT_SCALE(entry.x) \
            entries[number / ENTRIES * ENTRY_LINE + number % ENTRIES] = entry; \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        uint number = i * INVOCATIONS + invocation; \
        if (number < SEGMENTS_BESIDE * BLOCK_ROWS * LEFT_FOURS) { \
            LOOK_AT_LEFT(loaded_left[i]) \
            left_lines[number / LEFT_FOURS * LEFT_LINE + number % LEFT_FOURS] = uintBitsToFloat(loaded_left[i]); \
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
    uint across = INVOCATIONS / SEGMENTS_BESIDE;
    uint beside = invocation / across;
    // Work groups that run at one time read the same weights.
    uint first_row = group % parameters.row_tiles * BLOCK_ROWS;
    uint first_column = group / parameters.row_tiles * (across * BLOCK_COLUMNS);
    uvec4 loaded[LINE_VECTORS * BLOCK_COLUMNS];
    uint loaded_scales[MOST_ENTRIES * BLOCK_COLUMNS];
    uint loaded_zeros[MOST_ENTRIES * BLOCK_COLUMNS];
    uvec4 loaded_left[LEFT_LOADS];
    uint first_words[LINE_VECTORS * BLOCK_COLUMNS];
    uint first_scales[MOST_ENTRIES * BLOCK_COLUMNS];
    uint first_zeros[MOST_ENTRIES * BLOCK_COLUMNS];
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
            PUT_STAGE
            barrier();
            if (stage + STAGE_TERMS < longest) {
                LOAD_STAGE(stage + STAGE_TERMS)
            }
            vec2 entry[BLOCK_COLUMNS];
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
                        if (i * WORD_TERMS % min(BLOCK, UNIT_TERMS) == 0u) {
                            entry[j] = entries[(j * INVOCATIONS + invocation) * ENTRY_LINE + (unit + i * WORD_TERMS) / BLOCK];
                        }
                        WEIGHTS_OF(words[j * UNIT_WORDS + i], entry[j], weights, j * WORD_TERMS)
                    }
                    [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
                        [[unroll]] for (uint four = 0u; four < WORD_TERMS / 4; ++four) {
                            uint at = (beside * BLOCK_ROWS + row) * LEFT_LINE + (unit + i * WORD_TERMS) / 4u + four;
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
                sum = exact_sum(row, column, first, min(first + SEGMENT, parameters.terms));
            }
            EXCHANGED(number) = sum;
        }
        barrier();
        if (beside == 0u) {
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
    [[dont_unroll]] for (uint number = 0u; number < SUMS; ++number) {
        uint total = 0u;
        [[unroll]] for (uint i = 0u; i < SUMS; ++i) {
            total = number == i ? totals[i] : total;
        }
        uint row = first_row + number / BLOCK_COLUMNS;
        uint column = COLUMN(number % BLOCK_COLUMNS, invocation);
        if (beside == 0u && row < parameters.rows && column < parameters.columns) {
            uint result = finished(total, row, column);
            if (OUTPUT_HAS_PAIRS) {
                EXCHANGED(number) = result;
            } else {
                STORE(OPERAND_BITS, words_output, output_index(row, column), result);
            }
        }
    }
    if (OUTPUT_HAS_PAIRS) {
        barrier();
        for (uint number = 0u; number < SUMS; ++number) {
            uint row = first_row + number / BLOCK_COLUMNS;
            uint column = COLUMN(number % BLOCK_COLUMNS, invocation);
            if (beside == 0u && invocation % 2u == 0u && row < parameters.rows && column < parameters.columns) {
                uvec2 pair = uvec2(EXCHANGED(number), lines[(number * INVOCATIONS + invocation) / 4u][invocation % 4u + 1u]);
                words_output[output_index(row, column) >> 1u] = pair.x | pair.y << 16u;
            }
        }
    }
}
