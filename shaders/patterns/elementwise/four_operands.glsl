// What a shader of four inputs sees before its function, in the place of elementwise_operands.glsl. The compile script passes INPUT_0,
// INPUT_1, INPUT_2, INPUT_3, and INPUT_0_BITS, INPUT_1_BITS, INPUT_2_BITS, INPUT_3_BITS.
#define FOR_EACH_INPUT(DO, argument) DO(0, argument) DO(1, argument) DO(2, argument) DO(3, argument)
#define FOR_EACH_FURTHER_OUTPUT(DO, argument)
#define APPLY(OPERAND, lane) OPERATION(OPERAND(0, lane), OPERAND(1, lane), OPERAND(2, lane), OPERAND(3, lane))
#include "elementwise/fused_operands.glsl"
