// The main function of a step that makes the products of the state too, for processors: see recurrent_products.glsl. Each invocation
// has BLOCK_WORDS words of the state of BLOCK_ROWS sequences, and makes the products of all of their gates as matrix_processors.glsl
// does, with the same bits and for the same reasons without shared memory and without arrays that are indexed by a variable.
// Neighbouring invocations have neighbouring words. A sum has one segment.
//
// The compile script passes BLOCK_ROWS, BLOCK_WORDS and INVOCATIONS.
layout(local_size_x = INVOCATIONS) in;

#define CONVOLUTION 0
#define TERMS_PER_ITERATION 8u
#define WORD_COLUMNS (PRODUCT_GATES * (32 / OPERAND_BITS))
#define BLOCK_COLUMNS (BLOCK_WORDS * WORD_COLUMNS)
#define RESULTS (BLOCK_ROWS * BLOCK_COLUMNS)

#include "products/matrix_terms.glsl"

// Where the operands of a direction begin.
struct Batch {
    uint left;
    uint left_row; // elements from row to row
    uint right, first_unit;
};
struct Column {
    uint first;
};
// Columns are gates, unit by unit of each word. What lies outside is computed with what lies at the edge, and not stored.
Column column_at(Batch batch, uint column) {
    uint in_word = column % WORD_COLUMNS / PRODUCT_GATES;
    uint unit = min(batch.first_unit + column / WORD_COLUMNS * (INVOCATIONS * UNITS_OF_WORD) + in_word, parameters.hidden - 1u);
    uint gate = FIRST_GATE + column % PRODUCT_GATES;
    return Column(batch.right + (gate * parameters.hidden + unit) * parameters.right_unit);
}
uint left_index(Batch batch, uint at, uint term) { return batch.left + min(at, parameters.batch - 1u) * batch.left_row + term; }
uint left_bits(Batch batch, uint at, uint term) { return operand(LOAD(OPERAND, words_state, left_index(batch, at, term))); }
uint right_bits(Column column, uint term) {
    return operand(LOAD(OPERAND, words_right, column.first + term * parameters.right_term));
}

#include "products/matrix_exact_sum.glsl"

uint recurrences[PRODUCT_GATES]; // of the unit that is stepped
uint projection(uint gate, uint unit) { return words_projections[projection_index(gate, unit)]; }
uint recurrence(uint gate, uint unit) {
    uint found = recurrences[0];
    [[unroll]] for (uint i = 1u; i < PRODUCT_GATES; ++i) {
        found = gate == FIRST_GATE + i ? recurrences[i] : found;
    }
    return found;
}

void main() {
    WORK_GROUP(group)
    uint row_blocks = (parameters.batch + BLOCK_ROWS - 1u) / BLOCK_ROWS;
    uint word_blocks = (WORDS + (BLOCK_WORDS * INVOCATIONS - 1u)) / (BLOCK_WORDS * INVOCATIONS);
    uint first_row = group % row_blocks * BLOCK_ROWS;
    uint word = group / row_blocks % word_blocks * (BLOCK_WORDS * INVOCATIONS) + index_in_group();
    direction = parameters.first_direction + group / row_blocks / word_blocks;
    uint left = (BASE_WORD(state) + parameters.MULTIPLIED_STATE + direction * parameters.batch * WORDS) * UNITS_OF_WORD;
    uint right = BASE(OPERAND_BITS, right) + direction * parameters.right_direction;
    Batch batch = Batch(left, WORDS * UNITS_OF_WORD, right, word * UNITS_OF_WORD);

    uint columns[BLOCK_COLUMNS]; // where the next term of each lies
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
        columns[j] = column_at(batch, j).first;
    }
    uint rows[BLOCK_ROWS];
    [[unroll]] for (uint i = 0u; i < BLOCK_ROWS; ++i) {
        rows[i] = left_index(batch, first_row + i, 0u);
    }
    float sums[RESULTS];
    [[unroll]] for (uint i = 0u; i < RESULTS; ++i) {
        sums[i] = 0.0;
    }
    uint left_classes = 0u;
    uint right_classes = 0u;
    uint right_position = 0u;
    for (uint term = 0u; term < parameters.hidden; ++term) {
        float b[BLOCK_COLUMNS];
        [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
            uint bits = operand(LOAD(OPERAND, words_right, columns[j] + right_position));
            right_classes |= class_of(bits);
            b[j] = uintBitsToFloat(bits);
        }
        [[unroll]] for (uint i = 0u; i < BLOCK_ROWS; ++i) {
            uint bits = operand(LOAD(OPERAND, words_state, rows[i] + term));
            left_classes |= class_of(bits);
            [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                sums[i * BLOCK_COLUMNS + j] = product_plus(uintBitsToFloat(bits), b[j], sums[i * BLOCK_COLUMNS + j]);
            }
        }
        right_position += parameters.right_term;
    }
    for (uint i = is_plain(left_classes, right_classes) ? RESULTS : 0u; i < RESULTS; ++i) {
        uint bits = exact_sum(batch, first_row + i / BLOCK_COLUMNS, i % BLOCK_COLUMNS, 0u, parameters.hidden);
        [[unroll]] for (uint k = 0u; k < RESULTS; ++k) {
            sums[k] = k == i ? uintBitsToFloat(bits) : sums[k];
        }
    }
    // Sums are brought to the front, those of a row and then those of a word.
    for (uint i = 0u; i < BLOCK_ROWS; ++i) {
        row = first_row + i;
        state_row = (direction * parameters.batch + row) * WORDS;
        float own[BLOCK_COLUMNS];
        [[unroll]] for (uint k = 0u; k < BLOCK_COLUMNS; ++k) {
            own[k] = sums[k];
        }
        [[unroll]] for (uint k = 0u; k < RESULTS - BLOCK_COLUMNS; ++k) {
            sums[k] = sums[k + BLOCK_COLUMNS];
        }
        uint own_word = word;
        for (uint j = 0u; j < BLOCK_WORDS; ++j) {
            if (row < parameters.batch && own_word < WORDS) {
                uint hidden = 0u;
                uint second = 0u;
                for (uint lane = 0u; lane < UNITS_OF_WORD; ++lane) {
                    [[unroll]] for (uint gate = 0u; gate < PRODUCT_GATES; ++gate) {
                        recurrences[gate] = floatBitsToUint(lane == 0u ? own[gate] : own[WORD_COLUMNS - PRODUCT_GATES + gate]);
                    }
                    uint unit = own_word * UNITS_OF_WORD + lane;
                    if (unit < parameters.hidden) {
                        Unit next = stepped(unit);
                        hidden |= NARROW(next.hidden) << (lane * 16u);
                        second |= NARROW(next.second) << (lane * 16u);
                    }
                }
                store_word(own_word, hidden, second);
            }
            [[unroll]] for (uint k = 0u; k < BLOCK_COLUMNS - WORD_COLUMNS; ++k) {
                own[k] = own[k + WORD_COLUMNS];
            }
            own_word += INVOCATIONS;
        }
    }
}
