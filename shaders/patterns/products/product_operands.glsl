// Where GEMM's operands lie. Included by matrix_operands.glsl.
#ifndef PRODUCT_OPERANDS_GLSL
#define PRODUCT_OPERANDS_GLSL

Batch batch_at(uint number, uint batches, uint segment) {
    uint outer = number / parameters.inner_batches;
    uint inner = number % parameters.inner_batches;
    uint totals = (SEGMENTS_COME == PARALLEL ? segment * batches + number : number) * (parameters.rows * parameters.columns);
    uint addend = BASE(OPERAND_BITS, addend) + outer * parameters.addend_outer + inner * parameters.addend_inner;
    uint results = BASE(RESULT_BITS, output) + outer * parameters.output_outer + inner * parameters.output_inner;
#if ADDS_SEGMENTS
    return Batch(0u, 0u, addend, results, BASE(32, totals) + totals);
#else
    uint left = BASE(OPERAND_BITS, left) + outer * parameters.left_outer + inner * parameters.left_inner;
#ifdef RIGHT_IS_PACKED
    uint right = BASE(OPERAND_BITS, right); // the same for all
#else
    uint right = BASE(OPERAND_BITS, right) + outer * parameters.right_outer + inner * parameters.right_inner;
#endif
    return Batch(left, right, addend, WRITES_TOTALS ? BASE(32, output) + totals : results, 0u);
#endif
}

#define OUTPUT_ROW parameters.output_row // from a row's results to those of the next one

#if !ADDS_SEGMENTS && !COUNTS_TERMS
#define LEFT_TERMS_ARE_EVEN true // whether the same step leads from each term to the next one

uint left_index(Batch batch, uint row, uint term) { return batch.left + row * parameters.left_row + term * parameters.left_term; }

// What is the same for all terms of a column.
struct Column {
    uint first;
};
Column column_at(Batch batch, uint column) { return Column(batch.right + column * parameters.right_column); }
uint right_index(Column column, uint term) { return column.first + term * parameters.right_term; }

#endif

uint addend_index(Batch batch, uint row, uint column) {
    return batch.addend + row * parameters.addend_row + column * parameters.addend_column;
}
uint output_index(Batch batch, uint row, uint column) {
    return batch.results + row * parameters.output_row + column * parameters.output_column;
}

#endif
