// Makes of rows what chunk_tiles.glsl multiplies (packed_chunks.glsl says where it lies): an invocation for each chunk of each line.
#include "products/packed_chunks.glsl"

layout(local_size_x = 64) in;

// Lines that a tile has: there are so many of each chunk as all tiles have.
layout(constant_id = 20) const uint TILE_ROWS = 1u;

void main() {
    uint group = work_group_index();
    uint lines = parameters.row_tiles * TILE_ROWS;
    uint item = group * 64u + index_in_group();
    if (group >= parameters.work_items || item >= lines * CHUNKS) { return; }
    uint chunk = item / lines;
    uint line = item % lines;
    uint end = line < parameters.rows ? parameters.terms : 0u;
    uint at = BASE_WORD(output) + ROW_PLANE(chunk, 0u, lines) + line;
    uint lowest = NO_LOWEST;
    float sum = 0.0;
    [[unroll]] for (uint i = 0u; i < CHUNK; i += 4u) {
        uvec4 four = left_four(min(line, parameters.rows - 1u), chunk * CHUNK + i, end);
        lowest = min(lowest, lowest_of_four(four));
        [[unroll]] for (uint k = 0u; k < 4u; ++k) {
            sum = rounded_sum(sum, uintBitsToFloat(four[k]));
            words_output[at + (i + k) * lines] = four[k];
        }
    }
    words_output[at + PLANE_OF_SUMS * lines] = floatBitsToUint(sum);
    words_output[at + PLANE_OF_LEAST * lines] = least_scale(lowest);
}
