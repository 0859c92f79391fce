// Sizes and strides of an element-wise kernel's operands. The host has folded the dimensions; axis 0 is the innermost one of
// the output. A constant that an access order has for itself comes behind them.
#include "axes.glsl"

#define OWN_CONSTANT (20 + 8 * INPUT_COUNT)

ALL_STRIDES(output, 12)
#define INPUT_STRIDES(n, first_id) ALL_STRIDES(input_##n, first_id + 8 * n)
FOR_EACH_INPUT(INPUT_STRIDES, 20)

// Moves every operand's row by this axis's coordinate. Axes of size 1 vanish when the pipeline is made.
#define MOVE_INPUT(n, axis) row_input_##n += coordinate * STRIDE_input_##n##_##axis;
#define MOVE(axis, coordinate) row_output += coordinate * STRIDE_output_##axis; FOR_EACH_INPUT(MOVE_INPUT, axis)

#if OUTPUT_BITS < 32
// Those of other rows, and bytes outside the tensor, stay as they are.
STORES_BITS(store_bits, words_output)
#endif
