// Operands of any strides. The host has folded the dimensions; axis 0 is the innermost, along which the output's stride is
// smallest. An invocation takes up to LANES = 4 neighbouring elements of one row, a row being what lies along axis 0.
//
// Where the elements of an 8- or 16-bit output lie side by side (OUTPUT_PACKED), the four begin at a multiple of 4 in
// memory, not in the row: a whole word is then stored at once, and at the ends of a row, whose words may belong to the
// next row too, or to bytes that must stay as they are, atomics set the row's own bits.

#include "axes.glsl"

ALL_STRIDES(output, 12)
#define INPUT_STRIDES(n, first_id) ALL_STRIDES(input_##n, first_id + 8 * n)
FOR_EACH_INPUT(INPUT_STRIDES, 20)

// Moves every operand's row by this axis's coordinate. Axes of size 1 vanish when the pipeline is made.
#define MOVE_INPUT(n, axis) row_input_##n += coordinate * STRIDE_input_##n##_##axis;
#define MOVE_ALONG(axis) \
    if (SIZE_##axis > 1u) { \
        uint coordinate = row % SIZE_##axis; \
        row /= SIZE_##axis; \
        row_output += coordinate * STRIDE_output_##axis; \
        FOR_EACH_INPUT(MOVE_INPUT, axis) \
    }

#define ELEMENT_OF(n, element) LOAD(INPUT_##n, words_input_##n, row_input_##n + element * STRIDE_input_##n##_0)

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
#define ROW_OF_INPUT(n, type) type row_input_##n = BASE(INPUT_##n##_BITS, input_##n);
    FOR_EACH_INPUT(ROW_OF_INPUT, uint)
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
                VALUE(OUTPUT) value = APPLY(ELEMENT_OF, element); \
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
            VALUE(OUTPUT) value = APPLY(ELEMENT_OF, element); \
            STORE(OUTPUT_BITS, words_output, row_output + element * STRIDE_output_0, value); \
        } \
    }
    FOR_EACH_LANE(STORE_LANE)
}
