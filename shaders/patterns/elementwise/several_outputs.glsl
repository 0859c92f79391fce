// What a shader of four inputs and three outputs sees before its function, in the place of elementwise_operands.glsl, for access orders in
// vectors.
// OPERATION gives the first output's value, and sets further_0 and further_1. One more buffer lies between inputs and outputs, words_table,
// which the file reads itself. The compile script passes INPUT_0, INPUT_1, INPUT_2, INPUT_3, and INPUT_0_BITS, INPUT_1_BITS, INPUT_2_BITS,
// INPUT_3_BITS, and FURTHER_0, FURTHER_1, FURTHER_0_BITS and FURTHER_1_BITS.
#define LOOKUP_TABLE
#define FURTHER_OUTPUT_COUNT 2
#define FOR_EACH_FURTHER_OUTPUT(DO, argument) DO(0, argument) DO(1, argument)
#include "elementwise/elementwise_operands.glsl"

uint further_0, further_1;
