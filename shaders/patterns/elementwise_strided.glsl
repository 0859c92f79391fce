// Operands of any strides. The host has folded the dimensions; axis 0 is the innermost, along which the output's stride is
// smallest. An invocation takes up to LANES = 4 neighbouring elements of one row, a row being what lies along axis 0.
//
// Where the elements of an 8- or 16-bit output lie side by side (OUTPUT_PACKED), the four begin at a multiple of 4 in
// memory, not in the row: a whole word is then stored at once, and at the ends of a row, whose words may belong to the
// next row too, or to bytes that must stay as they are, atomics set the row's own bits.

#define GEOMETRY(axis, size_id) \
    layout(constant_id = size_id) const uint SIZE_##axis = 1u;
#define STRIDES(name, axis, stride_id) \
    layout(constant_id = stride_id) const uint STRIDE_##name##_##axis = 0u;

layout(constant_id = 2) const uint GROUPS_PER_ROW = 1u;
layout(constant_id = 3) const bool OUTPUT_PACKED = false;

GEOMETRY(0, 4) GEOMETRY(1, 5) GEOMETRY(2, 6) GEOMETRY(3, 7) GEOMETRY(4, 8) GEOMETRY(5, 9) GEOMETRY(6, 10) GEOMETRY(7, 11)

#define ALL_STRIDES(name, first_id) \
    STRIDES(name, 0, first_id) STRIDES(name, 1, first_id + 1) STRIDES(name, 2, first_id + 2) STRIDES(name, 3, first_id + 3) \
    STRIDES(name, 4, first_id + 4) STRIDES(name, 5, first_id + 5) STRIDES(name, 6, first_id + 6) STRIDES(name, 7, first_id + 7)

ALL_STRIDES(output, 12)
ALL_STRIDES(input_0, 20)
#if INPUT_COUNT > 1
ALL_STRIDES(input_1, 28)
#endif
#if INPUT_COUNT > 2
ALL_STRIDES(input_2, 36)
#endif

// Moves every operand's row by this axis's coordinate. Axes of size 1 vanish when the pipeline is made.
#if INPUT_COUNT == 1
#define MOVE_INPUTS(axis) row_input_0 += coordinate * STRIDE_input_0_##axis;
#elif INPUT_COUNT == 2
#define MOVE_INPUTS(axis) \
    row_input_0 += coordinate * STRIDE_input_0_##axis; \
    row_input_1 += coordinate * STRIDE_input_1_##axis;
#else
#define MOVE_INPUTS(axis) \
    row_input_0 += coordinate * STRIDE_input_0_##axis; \
    row_input_1 += coordinate * STRIDE_input_1_##axis; \
    row_input_2 += coordinate * STRIDE_input_2_##axis;
#endif
#define MOVE_ALONG(axis) \
    if (SIZE_##axis > 1u) { \
        uint coordinate = row % SIZE_##axis; \
        row /= SIZE_##axis; \
        row_output += coordinate * STRIDE_output_##axis; \
        MOVE_INPUTS(axis) \
    }

#define OPERAND_0 LOAD(INPUT_0, words_input_0, row_input_0 + element * STRIDE_input_0_0)
#define OPERAND_1 LOAD(INPUT_1, words_input_1, row_input_1 + element * STRIDE_input_1_0)
#define OPERAND_2 LOAD(INPUT_2, words_input_2, row_input_2 + element * STRIDE_input_2_0)
#if INPUT_COUNT == 1
#define APPLY OPERATION(OPERAND_0)
#elif INPUT_COUNT == 2
#define APPLY OPERATION(OPERAND_0, OPERAND_1)
#else
#define APPLY OPERATION(OPERAND_0, OPERAND_1, OPERAND_2)
#endif

#if OUTPUT_BITS < 32
// Stores those bits of a word that the mask selects.
void store_bits(uint word, uint bits, uint mask)
{
    if (mask == 0xffffffffu) {
        words_output[word] = bits;
    } else if (mask != 0u) {
        atomicAnd(words_output[word], ~mask);
        atomicOr(words_output[word], bits);
    }
}
#endif

void main()
{
    uint item = invocation_index();
    if (item >= parameters.work_items) {
        return;
    }
    uint row = item / GROUPS_PER_ROW;
    uint group = item % GROUPS_PER_ROW;

    uint row_output = BASE(OUTPUT_BITS, output);
    uint row_input_0 = BASE(INPUT_0_BITS, input_0);
#if INPUT_COUNT > 1
    uint row_input_1 = BASE(INPUT_1_BITS, input_1);
#endif
#if INPUT_COUNT > 2
    uint row_input_2 = BASE(INPUT_2_BITS, input_2);
#endif
    MOVE_ALONG(1) MOVE_ALONG(2) MOVE_ALONG(3) MOVE_ALONG(4) MOVE_ALONG(5) MOVE_ALONG(6) MOVE_ALONG(7)

    uint first = group * 4u;
#if OUTPUT_BITS < 32
    if (OUTPUT_PACKED) {
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
                VALUE(OUTPUT) value = APPLY; \
                INSERT(OUTPUT_BITS, result, lane, value); \
                INSERT(OUTPUT_BITS, mask, lane, 0xffffffffu); \
            } \
        }
        FOR_EACH_LANE(COMPUTE_LANE)
        uint word = (row_output + first) / (32u / OUTPUT_BITS);
        for (int i = 0; i < LANES * OUTPUT_BITS / 32; ++i) {
            store_bits(word + uint(i), result[i], mask[i]);
        }
        return;
    }
#endif
#define STORE_LANE(lane) \
    { \
        uint element = first + lane; \
        if (element < SIZE_0) { \
            VALUE(OUTPUT) value = APPLY; \
            STORE(OUTPUT_BITS, words_output, row_output + element * STRIDE_output_0, value); \
        } \
    }
    FOR_EACH_LANE(STORE_LANE)
}
