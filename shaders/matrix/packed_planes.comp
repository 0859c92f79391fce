// Rows of FLOAT16 as planes of bytes, for packed_dots.comp.
#include "products/planes_of_rows.glsl"
