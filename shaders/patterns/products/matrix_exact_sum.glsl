// A segment's sum by its definition: where left_bits(batch, row, term), column_at(batch, column) and right_bits(column, term) give the
// operands. TERMS_IN_TURN is defined before.
#ifndef MATRIX_EXACT_SUM_GLSL
#define MATRIX_EXACT_SUM_GLSL

// About 40 operations for each term.
uint exact_sum(Batch batch, uint row, uint column, uint first, uint end)
{
    Column place = column_at(batch, column);
    uint sum = 0u;
    // Several terms in each turn: llvmpipe ends loops, unasked, when an invocation has been through 65535 turns in all.
    for (uint turn = first; turn < end; turn += TERMS_IN_TURN) {
        [[unroll]] for (uint i = 0u; i < TERMS_IN_TURN; ++i) {
            uint term = min(turn + i, end - 1u);
            uint a = left_bits(batch, row, term);
            uint b = right_bits(place, term);
#if OPERAND_BITS == 32
            uint next = sum_plus(sum, multiply_f32(a, b));
#else
            uint next = floatBitsToUint(exact_product_plus(uintBitsToFloat(a), uintBitsToFloat(b), uintBitsToFloat(sum)));
#endif
            sum = a == PADDING || b == PADDING || turn + i >= end ? sum : next;
        }
    }
    return sum;
}

#endif
