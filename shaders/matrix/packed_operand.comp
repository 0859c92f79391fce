
// Operands of products of 8-bit integers, packed for tiles.
#include "products/packed_operand.glsl"
