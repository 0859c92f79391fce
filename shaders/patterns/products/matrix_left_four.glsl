// Four terms of a row of the left operand, as they are loaded. matrix_fours.glsl stands before this, and what it says of operands:
// left_index and Batch.

#define LEFT_IS_VECTOR (LEFT_ALONG_TERMS && LEFT_HAS_VECTORS)

// Terms from `end` on are zeros.
Four left_four(Batch batch, uint row, uint term, uint end) {
    Four four = Four(uvec4(0u), 0u);
    if (LEFT_IS_VECTOR) {
        if (term < end) { four = LOAD_VECTOR(left, left_index(batch, row, term)); }
        return four;
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        if (term + i < end) {
            uint index = left_index(batch, row, term + i);
            LOAD_ELEMENT(four, i, left, index)
        }
    }
    return four;
}
