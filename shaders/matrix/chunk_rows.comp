// Rows chunk by chunk, for chunk_tiles.comp.
#include "products/chunk_rows.glsl"
