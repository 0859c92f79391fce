
// Packed weights as numbers.
#include "products/block_numbers.glsl"
