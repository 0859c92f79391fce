
// Products of FLOAT32 by exact integers, as matrices that subgroups hold together.
#include "products/exact_tiles.glsl"
