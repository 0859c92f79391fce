// A function of one 16-bit operand, from a table of its 65,536 results, which lie in the order of the operand's bits.
#define LOOKUP_TABLE
#include "elementwise/elementwise_operands.glsl"

uint looked_up(uint bits) { return (words_table[BASE_WORD(table) + (bits >> 1u)] >> ((bits & 1u) * 16u)) & 0xffffu; }

#define OPERATION(x) looked_up(x)
