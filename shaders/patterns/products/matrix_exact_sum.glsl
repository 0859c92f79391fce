// A segment's sum by its definition: where left_bits(batch, row, term), column_at(batch, column) and right_bits(column, term) give the
// operands. TERMS_PER_ITERATION is defined before.
#ifndef MATRIX_EXACT_SUM_GLSL
#define MATRIX_EXACT_SUM_GLSL

// About 40 operations for each term.
uint exact_sum(Batch batch, uint row, uint column, uint first, uint end) {
    Column position = column_at(batch, column);
    uint sum = 0u;
    // Several terms in each iteration: llvmpipe ends loops, unasked, when an invocation has been through 65535 iterations in all.
    for (uint iteration = first; iteration < end; iteration += TERMS_PER_ITERATION) {
        [[unroll]] for (uint i = 0u; i < TERMS_PER_ITERATION; ++i) {
            uint term = min(iteration + i, end - 1u);
            uint a = left_bits(batch, row, term);
            uint b = right_bits(position, term);
#if OPERAND_BITS == 32
            uint next = sum_plus(sum, multiply_f32(a, b));
#else
            uint next = floatBitsToUint(exact_product_plus(uintBitsToFloat(a), uintBitsToFloat(b), uintBitsToFloat(sum)));
#endif
            sum = a == PADDING || b == PADDING || iteration + i >= end ? sum : next;
        }
    }
    return sum;
}

#endif
