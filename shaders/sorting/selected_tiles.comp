// TOP_K, TOP_K1: the first elements of long tiles of rows.
#include "rows/selected_tiles.glsl"
