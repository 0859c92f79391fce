// TOP_K, TOP_K1: the first elements of rows that are one tile each.
#define WRITES_RESULTS
#include "rows/selected_tiles.glsl"
