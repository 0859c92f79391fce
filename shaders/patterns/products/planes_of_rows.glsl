// Makes planes of rows of FLOAT16, which packed_dots.glsl multiplies: an invocation for each chunk of each line.
#include "products/packed_integers.glsl"
#include "products/packed_planes.glsl"

layout(local_size_x = 64) in;

// Lines that a tile has: there are so many of each chunk as all tiles have.
layout(constant_id = 20) const uint TILE_ROWS = 1u;

void main() {
    uint group = work_group_index();
    uint chunks = (parameters.terms + (CHUNK - 1u)) / CHUNK;
    uint lines = parameters.row_tiles * TILE_ROWS;
    uint item = group * 64u + index_in_group();
    if (group >= parameters.work_items || item >= lines * chunks) { return; }
    uint chunk = item % chunks;
    uint line = item / chunks;
    uint planes[PLANES * PLANE_WORDS];
    uint byte_sums[PLANES];
    float row_units[1], row_scales[1];
    uint rests[1];
    float row_rests[1];
    uvec4 terms[CHUNK / 4u];
    uint end = line < parameters.rows ? parameters.terms : 0u;
    [[unroll]] for (uint i = 0u; i < CHUNK / 4u; ++i) {
        terms[i] = left_four(min(line, parameters.rows - 1u), chunk * CHUNK + 4u * i, end);
    }
    PLANES_OF_TERMS(0u, terms)
    uint at = (BASE_WORD(output) >> 2u) + LINE_AT(chunk, line, lines);
    [[unroll]] for (uint i = 0u; i < PLANES * PLANE_VECTORS; ++i) {
        fours_output[at + i] = uvec4(planes[4u * i], planes[4u * i + 1u], planes[4u * i + 2u], planes[4u * i + 3u]);
    }
    fours_output[at + 6u] = uvec4(byte_sums[0], byte_sums[1], byte_sums[2], floatBitsToUint(row_units[0]));
    fours_output[at + 7u] = uvec4(floatBitsToUint(row_scales[0]), rests[0], 0u, 0u);
}
