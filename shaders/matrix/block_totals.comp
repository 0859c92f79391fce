// Adds sums of parts of products with packed weights.
#include "products/block_totals.glsl"
