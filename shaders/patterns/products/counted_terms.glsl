// Where GEMM's operands lie, for kernels that count terms: see counted_windows.glsl, which has the same for CONVOLUTION.
#ifndef COUNTED_TERMS_GLSL
#define COUNTED_TERMS_GLSL

#include "products/product_operands.glsl"

struct Place {
    uint column;
};
Place place_at(uint column) { return Place(column); }
Place place_behind(Place place, Place distance) { return Place(place.column + distance.column); }
uint output_place(Place place) { return place.column * parameters.output_column; }
#define OUTPUT_ROW parameters.output_row

struct Window {
    uint first;
};
Window window_at(Batch batch, Place place, bool exists)
{
    return Window(batch.right + (exists ? place.column : parameters.columns - 1u) * parameters.right_column);
}

struct Term {
    uint left;
    uint right;
};
Term term_at(uint term) { return Term(term * parameters.left_term, term * parameters.right_term); }
Term term_behind(Term term) { return Term(term.left + parameters.left_term, term.right + parameters.right_term); }

uint right_bits(Window window, Term term) { return operand(LOAD(OPERAND, words_right, window.first + term.right)); }

#endif
