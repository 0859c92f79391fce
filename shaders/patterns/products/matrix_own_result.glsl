// Inside of a main function: what becomes of an invocation's `sum` of the terms from `first` to `end` of a `segment`, which belongs to
// `row` and `column`, if that `is_inside`; neighbouring invocations have neighbouring columns. EXCHANGED(invocation) is a word of shared
// memory that nobody needs any more.
    bool is_result = false;
    uint result = 0u;
    if (is_inside) {
        uint bits = plain && is_finite(sum) ? floatBitsToUint(sum) : exact_sum(batch, row, column, first, end);
        is_result = is_complete(batch, bits, row, column, segment);
        if (is_result) { result = finished(batch, bits, row, column); }
    }
#if OPERAND_BITS == 16
    if (OUTPUT_HAS_PAIRS) {
        EXCHANGED(invocation) = result;
        barrier();
        if (is_result && invocation % 2u == 0u) {
            words_output[output_index(batch, row, column) >> 1u] = result | EXCHANGED(invocation + 1u) << 16u;
        }
        barrier();
        is_result = false;
    }
#endif
    if (is_result) { store_result(batch, result, row, column); }
