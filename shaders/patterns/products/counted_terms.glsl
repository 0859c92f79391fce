// Where GEMM's operands lie, for kernels that count terms: see counted_windows.glsl, which has the same for CONVOLUTION.

#include "products/product_operands.glsl"

struct Position {
    uint column;
};
Position position_at(uint column) { return Position(column); }
Position position_behind(Position position, Position distance) { return Position(position.column + distance.column); }
uint output_position(Position position) { return position.column * parameters.output_column; }
#define OUTPUT_ROW parameters.output_row

struct Window {
    uint first;
};
Window window_at(Batch batch, Position position, bool exists) {
    return Window(batch.right + (exists ? position.column : parameters.columns - 1u) * parameters.right_column);
}

struct Term {
    uint left, right;
};
Term term_at(uint term) { return Term(term * parameters.left_term, term * parameters.right_term); }
Term term_behind(Term term) { return Term(term.left + parameters.left_term, term.right + parameters.right_term); }

uint right_bits(Window window, Term term) { return operand(LOAD(OPERAND, words_right, window.first + term.right)); }
