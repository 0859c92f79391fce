
// An operand of an exact product as integers of blocks.
#include "products/exact_operand.glsl"
