// Products of rows of FLOAT16 with packed weights (packed_integers.glsl) on processors: a block of results for each invocation, without
// shared memory. Terms are made two parts where they are loaded, by the largest magnitudes of chunks (packed_layout.glsl). Sums of parts are
// exact, so that it does not matter how a device rounds them, nor in which order. Neighbouring invocations compute neighbouring columns.
//
// What parts leave, of few chunks, is a second turn of a loop: llvmpipe executes both sides of a branch.
//
// The compile script passes BLOCK_ROWS, BLOCK_COLUMNS, INVOCATIONS and what packed_integers.glsl is passed.
#define IS_FOR_PROCESSORS
#define HAS_PARTS
#include "products/packed_integers.glsl"
#include "products/packed_layout.glsl"

layout(local_size_x = INVOCATIONS) in;

#define RESULTS (BLOCK_ROWS * BLOCK_COLUMNS)
#define LINES ((parameters.rows + 15u) / 16u * 16u)

// Rounded by sums with a bias, to multiples of what it is 3 * 2^22 of.
float rounded_by(float number, float bias) {
    precise float biased = number + bias;
    precise float rounded = biased - bias;
    return rounded;
}

#define EACH(i, count) [[unroll]] for (uint i = 0u; i < (count); ++i)

void main() {
    WORK_GROUP(group)
    uint first_row = group % parameters.row_tiles * BLOCK_ROWS;
    uint first_column = group / parameters.row_tiles * (BLOCK_COLUMNS * INVOCATIONS) + index_in_group();
    uint columns[BLOCK_COLUMNS];
    EACH(j, BLOCK_COLUMNS) {
        columns[j] = min(first_column + j * INVOCATIONS, parameters.columns - 1u);
    }
    float totals[RESULTS];
    EACH(i, RESULTS) {
        totals[i] = 0.0;
    }
    for (uint first = 0u; first < CHUNKS; first += CHUNKS_OF_SEGMENT) {
        float sums[RESULTS];
        EACH(i, RESULTS) {
            sums[i] = 0.0;
        }
        for (uint chunk = first; chunk < min(first + CHUNKS_OF_SEGMENT, CHUNKS); ++chunk) {
            float zeros[BLOCK_COLUMNS], values[RESULTS];
            EACH(j, BLOCK_COLUMNS) {
                zeros[j] = float(int(zero_at(zero_index(columns[j], chunk * CHUNK)))) + HALF_RANGE;
            }
            EACH(i, RESULTS) {
                values[i] = 0.0;
            }
            uint peaks[BLOCK_ROWS];
            uint flags = 0u;
            EACH(i, BLOCK_ROWS) {
                uint known = words_parts[BASE_WORD(parts) + chunk * LINES + first_row + i];
                flags |= known & 1u;
                peaks[i] = known & ~1u;
            }
            for (uint plane = 0u; plane <= flags; ++plane) {
                float large[RESULTS], small[RESULTS];
                EACH(i, RESULTS) {
                    large[i] = 0.0;
                    small[i] = 0.0;
                }
                for (uint word = 0u; word < CHUNK_WORDS; ++word) {
                    float weights[BLOCK_COLUMNS * WORD_TERMS];
                    EACH(j, BLOCK_COLUMNS) {
                        uint own = min((columns[j] * PACKED_COLUMN + chunk * CHUNK) / uint(WORD_TERMS) + word, (columns[j] * PACKED_COLUMN + parameters.terms - 1u) / uint(WORD_TERMS));
                        uint bits = FLIPPED(words_packed[BASE_WORD(packed) + own]);
                        EACH(k, WORD_TERMS) {
                            weights[j * WORD_TERMS + k] = float(int(bits >> k * uint(WEIGHT_BITS) & WEIGHT_MASK)) - zeros[j];
                        }
                    }
                    EACH(i, BLOCK_ROWS) {
                        uint unit = SECOND_UNIT(peaks[i]);
                        float bias = BIAS_OF(unit);
                        float first_bias = BIAS_OF(plane == 0u ? FIRST_UNIT(peaks[i]) : unit - 12u);
                        EACH(four, WORD_TERMS / 4u) {
                            uint term = chunk * CHUNK + word * uint(WORD_TERMS) + four * 4u;
                            uvec4 bits = left_four(min(first_row + i, parameters.rows - 1u), term, parameters.terms);
                            vec4 firsts, seconds;
                            EACH(k, 4u) {
                                float number = uintBitsToFloat(bits[k]);
                                float both = rounded_by(number, bias);
                                precise float rest = number - both;
                                both = plane == 0u ? both : rest;
                                firsts[k] = rounded_by(both, first_bias);
                                precise float second = both - firsts[k];
                                seconds[k] = second;
                            }
                            EACH(j, BLOCK_COLUMNS) {
                                EACH(k, 4u) {
                                    float weight = weights[j * WORD_TERMS + four * 4u + k];
                                    large[i * BLOCK_COLUMNS + j] += firsts[k] * weight;
                                    small[i * BLOCK_COLUMNS + j] += seconds[k] * weight;
                                }
                            }
                        }
                    }
                }
                EACH(i, RESULTS) {
                    precise float both = large[i] + small[i];
                    precise float value = values[i] + both;
                    values[i] = value;
                }
            }
            EACH(j, BLOCK_COLUMNS) {
                float scale = uintBitsToFloat(NUMBER_OF(scale_at(scale_index(columns[j], chunk * CHUNK))));
                EACH(i, BLOCK_ROWS) {
                    precise float product = values[i * BLOCK_COLUMNS + j] * scale;
                    precise float sum = sums[i * BLOCK_COLUMNS + j] + product;
                    sums[i * BLOCK_COLUMNS + j] = sum;
                }
            }
        }
        EACH(i, RESULTS) {
            precise float total = totals[i] + sums[i];
            totals[i] = total;
        }
    }
    // One after the other: nothing is indexed by a variable, which llvmpipe makes a ladder of branches of.
    for (uint i = 0u; i < RESULTS; ++i) {
        uint row = first_row + i / BLOCK_COLUMNS;
        uint column = first_column + i % BLOCK_COLUMNS * INVOCATIONS;
        if (row < parameters.rows && column < parameters.columns) {
            STORE(OPERAND_BITS, words_output, output_index(row, column), result_of_total(totals[0], row, column, 0u));
        }
        [[unroll]] for (uint k = 0u; k + 1u < RESULTS; ++k) {
            totals[k] = totals[k + 1u];
        }
    }
}
