
// Products of 8-bit integers, of packed operands, by matrices that subgroups hold together.
#include "products/cooperative_tiles.glsl"
