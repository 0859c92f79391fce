
// Products and convolutions of 8-bit integers.
#include "products/integer_products.glsl"
