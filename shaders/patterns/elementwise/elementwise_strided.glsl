// Operands of any strides. A row is what lies along axis 0. An invocation takes LANES = 4 elements of one row.
//
// Where the elements of an 8- or 16-bit output lie side by side (OUTPUT_PACKED), they are neighbours, and begin at a
// multiple of 4 in memory, not in the row: a whole word is then stored at once, and at the ends of a row, whose words may
// belong to the next row too, or to bytes that must stay as they are, atomics set the row's own bits. Otherwise they lie
// INTERLEAVE elements apart, so that neighbouring invocations take neighbouring elements at the same time.
#include "elementwise/elementwise_axes.glsl"

layout(constant_id = OWN_CONSTANT) const uint INTERLEAVE = 1u;

#define ELEMENT_OF(n, element) LOAD(INPUT_##n, words_input_##n, row_input_##n + element * STRIDE_input_##n##_0)

void main() {
    WORK_ITEM(item)
    uint row = item / GROUPS_PER_ROW;
    uint group = item % GROUPS_PER_ROW;

    uint row_output = BASE(OUTPUT_BITS, output);
#define ROW_OF_INPUT(n, type) type row_input_##n = BASE(INPUT_##n##_BITS, input_##n);
    FOR_EACH_INPUT(ROW_OF_INPUT, uint)
    MOVE_BY(row, 1) MOVE_BY(row, 2) MOVE_BY(row, 3) MOVE_BY(row, 4) MOVE_BY(row, 5) MOVE_BY(row, 6) MOVE_BY(row, 7)

#if OUTPUT_BITS < 32
    if (OUTPUT_PACKED) {
        uint first = group * 4u;
        // May wrap below zero, to a number above every size.
        first -= row_output & 3u;
        uint result[LANES * OUTPUT_BITS / 32];
        uint mask[LANES * OUTPUT_BITS / 32];
        for (int i = 0; i < LANES * OUTPUT_BITS / 32; ++i) {
            result[i] = 0u;
            mask[i] = 0u;
        }
#define COMPUTE_LANE(lane) \
        { \
            uint element = first + lane; \
            if (element < SIZE_0) { \
                VALUE(OUTPUT) value = APPLY(ELEMENT_OF, element); \
                INSERT(OUTPUT_BITS, result, lane, value); \
                INSERT(OUTPUT_BITS, mask, lane, 0xffffffffu); \
            } \
        }
        FOR_EACH_LANE(COMPUTE_LANE)
        uint word = (row_output + first) / (32u / OUTPUT_BITS);
        for (int i = 0; i < LANES * OUTPUT_BITS / 32; ++i) { store_bits(word + uint(i), result[i], mask[i]); }
        return;
    }
#endif
    uint first = (group / INTERLEAVE) * (4u * INTERLEAVE) + group % INTERLEAVE;
#define STORE_LANE(lane) \
    { \
        uint element = first + lane * INTERLEAVE; \
        if (element < SIZE_0) { \
            VALUE(OUTPUT) value = APPLY(ELEMENT_OF, element); \
            STORE(OUTPUT_BITS, words_output, row_output + element * STRIDE_output_0, value); \
        } \
    }
    FOR_EACH_LANE(STORE_LANE)
}
