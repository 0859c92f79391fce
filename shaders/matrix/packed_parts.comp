// Rows of FLOAT16 as the parts that tiles of packed weights multiply.
#include "products/packed_parts.glsl"
