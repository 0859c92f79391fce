// Blocks of results, one for each invocation, without shared memory: for processors, where invocations that wait for each other are put
// aside with all that they hold. Neighbouring invocations compute neighbouring columns.
//
// What counts here is also the time that a driver takes to make the kernel. llvmpipe makes a ladder of branches of an array that is
// indexed by a variable, and executes all of it for each index: with a block of 256 sums that took LLVM 4 of 4.5 s, and a quarter of the
// kernel's time. So sums are brought to the front, one after the other, and nothing is indexed by a variable. And as loops are
// executed once at least, the slow path is one loop over all sums, not one inside of the loop that stores them.
//
// Of convolutions whose windows overlap (IN_LINES), an invocation's columns are neighbours in a line of the image: matrix_lines.glsl.
//
// The compile script passes BLOCK_ROWS, BLOCK_COLUMNS, INVOCATIONS, SHAPE_AT_RUN_TIME, SHARES_LEFT (matrix_left.glsl), IN_LINES and
// WINDOW_WIDTH.
#if SHARES_LEFT
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 1
#include "products/matrix.glsl"
#include "products/matrix_block_position.glsl"

layout(local_size_x = INVOCATIONS) in;

#define RESULTS (BLOCK_ROWS * BLOCK_COLUMNS)
#define FRONT_ROWS (IN_LINES == 1 || BLOCK_ROWS < 16 ? 1 : 4) // brought to the front at once: about the root of all
#define FRONT (FRONT_ROWS * BLOCK_COLUMNS)

uint left_bits(uint first, Term term) { return operand(LOAD(OPERAND, words_left, first + term.left)); }

// As in matrix.glsl.
uint exact_sum(uint left, Window window, Term start, uint terms) {
    Term term = start;
    uint sum = 0u;
    // Several terms in each iteration: llvmpipe ends loops, unasked, when an invocation has been through 65535 iterations in all.
    for (uint iteration = 0u; iteration < terms; iteration += TERMS_PER_ITERATION) {
        [[unroll]] for (uint i = 0u; i < TERMS_PER_ITERATION; ++i) {
            uint a = left_bits(left, term);
            uint b = right_bits(window, term);
#if OPERAND_BITS == 32
            uint next = sum_plus(sum, multiply_f32(a, b));
#else
            uint next = floatBitsToUint(exact_product_plus(uintBitsToFloat(a), uintBitsToFloat(b), uintBitsToFloat(sum)));
#endif
            sum = a == PADDING || b == PADDING || iteration + i >= terms ? sum : next;
            if (iteration + i + 1u < terms) { term = term_behind(term); }
        }
    }
    return sum;
}

// A segment's sum goes into the total, and that into the output, where it is complete.
void deliver(Batch batch, uint sum, uint addend, uint row, uint column, uint position, uint segment) {
    uint index = WRITES_TOTALS ? batch.results + row * parameters.columns + column : batch.results + row * OUTPUT_ROW + position;
    if (SEGMENTS_COME == SEQUENTIAL && segment > 0u) { sum = sum_plus(words_output[index], sum); }
    if (WRITES_TOTALS || segment + 1u < SEGMENTS) {
        words_output[index] = sum;
    } else {
        STORE(OPERAND_BITS, words_output, index, finished_with(batch, sum, addend, 0u, row, column));
    }
}

// The first result from `result` on that some rows have; RESULTS where they have none.
uint result_from(uint rows, uint result) {
    uint row = result / BLOCK_COLUMNS;
    uint others = row < BLOCK_ROWS ? rows >> (row & 31u) : 0u;
    uint next = (row + uint(max(findLSB(others), 0))) * BLOCK_COLUMNS;
    return others == 0u ? RESULTS : max(result, next);
}

#include "products/matrix_left.glsl"
#if IN_LINES
#include "products/matrix_lines.glsl"
#else
#define COLUMN_OF(number) (own_column + (number) * INVOCATIONS)
#define PLACE_RESULT Position place = own_position;
#define RESULT_POSITION output_position(place)
#define NEXT_RESULT place = position_behind(place, distance);
#endif

void main() {
    WORK_GROUP(group)
    Block block = block_of(group);
    Batch batch = block.batch;

    // What lies outside is computed with padding or what lies at the edge, and not stored.
#if IN_LINES
    BEGIN_LINE
#else
    uint own_column = block.own_column;
    Window windows[BLOCK_COLUMNS];
    Position distance = position_at(INVOCATIONS);
    Position own_position = position_at(own_column);
    Position position = own_position;
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
        windows[j] = window_at(batch, position, own_column + j * INVOCATIONS < parameters.columns);
        position = position_behind(position, distance);
    }
#endif
    PLACE_LEFT
    for (uint segment = block.first_segment; segment < block.end_segment; ++segment) {
        uint first = segment * SEGMENT;
        uint terms = min(SEGMENT, parameters.terms - first);
        float sums[RESULTS];
        [[unroll]] for (uint i = 0u; i < RESULTS; ++i) {
            sums[i] = 0.0;
        }
        uint left_classes[LEFT_LOADS];
        [[unroll]] for (uint n = 0u; n < LEFT_LOADS; ++n) { left_classes[n] = 0u; }
        uint right_classes = 0u;
        Term start = term_at(first);
#if IN_LINES
        ADD_LINES
#else
        Term term = start;
        for (uint number = 0u; number < terms; ++number) {
            LOAD_LEFT(0u)
            float b[BLOCK_COLUMNS];
            [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                uint bits = right_bits(windows[j], term);
                right_classes |= class_of(bits);
                b[j] = uintBitsToFloat(bits);
            }
            [[unroll]] for (uint i = 0u; i < BLOCK_ROWS; ++i) {
                float a = uintBitsToFloat(OF_ALL(own_left, i));
                [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                    sums[i * BLOCK_COLUMNS + j] = product_plus(a, b[j], sums[i * BLOCK_COLUMNS + j]);
                }
            }
            term = term_behind(term);
        }
#endif
        uint rows = 0u; // those that are not plain, a bit each: a filter that hardly counts has small numbers alone
        [[unroll]] for (uint i = 0u; i < BLOCK_ROWS; ++i) {
            uint classes = 0u;
            [[unroll]] for (uint k = 0u; k < WINDOW_WIDTH; ++k) { classes |= OF_ALL(left_classes, i * WINDOW_WIDTH + k); }
            rows |= is_plain(classes, right_classes) ? 0u : 1u << i;
        }
        for (uint i = result_from(rows, 0u); i < RESULTS; i = result_from(rows, i + 1u)) {
            uint left = batch.left + min(block.first_row + i / BLOCK_COLUMNS, parameters.rows - 1u) * parameters.left_row;
            uint column = COLUMN_OF(i % BLOCK_COLUMNS);
            Window window = window_at(batch, position_at(column), column < parameters.columns);
            float exact = uintBitsToFloat(exact_sum(left, window, start, terms));
            [[unroll]] for (uint k = 0u; k < RESULTS; ++k) {
                sums[k] = k == i ? exact : sums[k];
            }
        }
        for (uint first_row = block.first_row; first_row < block.first_row + BLOCK_ROWS; first_row += FRONT_ROWS) {
            float front[FRONT];
            [[unroll]] for (uint k = 0u; k < FRONT; ++k) { front[k] = sums[k]; }
            [[unroll]] for (uint k = 0u; k < RESULTS - FRONT; ++k) { sums[k] = sums[k + FRONT]; }
            for (uint row = first_row; row < first_row + FRONT_ROWS; ++row) {
                float next[BLOCK_COLUMNS];
                [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) { next[j] = front[j]; }
                [[unroll]] for (uint k = 0u; k < FRONT - BLOCK_COLUMNS; ++k) { front[k] = front[k + BLOCK_COLUMNS]; }
                PLACE_RESULT
#if CONVOLUTION
                uint addend = addend_of(batch, min(row, parameters.rows - 1u), 0u);
#endif
                for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                    uint column = COLUMN_OF(j);
                    if (row < parameters.rows && column < parameters.columns) {
#if !CONVOLUTION
                        uint addend = addend_of(batch, row, column);
#endif
                        deliver(batch, floatBitsToUint(next[0]), addend, row, column, RESULT_POSITION, segment);
                    }
                    [[unroll]] for (uint k = 0u; k + 1u < BLOCK_COLUMNS; ++k) { next[k] = next[k + 1u]; }
                    NEXT_RESULT
                }
            }
        }
    }
}
