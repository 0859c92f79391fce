
// Products of 8-bit integers, of packed operands.
#include "products/packed_tiles.glsl"
