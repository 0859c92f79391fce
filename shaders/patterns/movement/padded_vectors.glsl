// padded.comp for units of up to 32 bits that lie side by side in the target, in rows of UNITS and more: an invocation makes 16 bytes of it. They
// lie in one row or in two, whose places are found once for all of them.
#define UNITS (128u / UNIT_BITS)
#define UNITS_IN_WORD (32u / UNIT_BITS)

// Where the row with this number lies, whose coordinates along the other axes these are.
Offsets offsets_of_row(uint element) {
    Offsets offsets = Offsets(0u, 0u, true);
    MOVE_BY(element, 1) MOVE_BY(element, 2) MOVE_BY(element, 3) MOVE_BY(element, 4) MOVE_BY(element, 5) MOVE_BY(element, 6) MOVE_BY(element, 7)
    return offsets;
}

void main() {
    uint vector = invocation_index();
    if (vector > (parameters.elements - 1u) / UNITS) { return; }
    uint first = vector * UNITS;
    uint row = first / SIZE_0;
    uint coordinate = first % SIZE_0;
    Offsets own = offsets_of_row(row);
    Offsets next = offsets_of_row(row + 1u);
    uint words[4];
    [[unroll]] for (uint word = 0u; word < 4u; ++word) {
        words[word] = 0u;
        [[unroll]] for (uint k = 0u; k < UNITS_IN_WORD; ++k) {
            uint offset = coordinate + word * UNITS_IN_WORD + k;
            bool is_next = offset >= SIZE_0;
            offset -= (is_next ? SIZE_0 : 0u) + START_0;
            uint row_offset = is_next ? next.sparse : own.sparse;
            bool is_inside = (is_next ? next.is_inside : own.is_inside) && offset < LENGTH_0;
            uint unit = PADDING_UNIT;
            if (is_inside) { unit = LOAD_UNIT(sparse, row_offset + offset * STRIDE_sparse_0); }
            words[word] |= unit << (k * UNIT_BITS);
        }
    }
    if (parameters.elements - first >= UNITS) {
        fours_dense[(BASE_WORD(dense) >> 2u) + vector] = uvec4(words[0], words[1], words[2], words[3]);
        return;
    }
    // Bits behind the target's end stay as they are.
    for (uint word = 0u; word < 4u; ++word) {
        uint unit = first + word * UNITS_IN_WORD;
        uint offset = BASE_WORD(dense) + 4u * vector + word;
        if (unit >= parameters.elements) { return; }
        if (parameters.elements - unit >= UNITS_IN_WORD) {
            words_dense[offset] = words[word];
        } else {
            uint mask = 0xffffffffu << ((parameters.elements - unit) * UNIT_BITS);
            atomicAnd(words_dense[offset], mask);
            atomicOr(words_dense[offset], words[word] & ~mask);
        }
    }
}
