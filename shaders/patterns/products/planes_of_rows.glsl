// Makes planes of rows, which packed_dots.glsl multiplies: an invocation for each chunk of each line.
#include "products/packed_integers.glsl"
#include "products/packed_planes.glsl"

#ifdef IS_WIDE
#define SUM_OF_TERMS floatBitsToUint(term_sums[0])
#else
#define SUM_OF_TERMS 0u
#endif

#define TERM_AT(row, i) operand(LOAD(OPERAND, words_left, left_index(line, chunk * CHUNK + (i))))

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
    DECLARE_PLANES(1u)
    uvec4 terms[CHUNK / 4u];
    uint end = line < parameters.rows ? parameters.terms : 0u;
    [[unroll]] for (uint i = 0u; i < CHUNK / 4u; ++i) {
        terms[i] = left_four(min(line, parameters.rows - 1u), chunk * CHUNK + 4u * i, end);
    }
    PLANES_OF_TERMS(0u, terms)
    uint at = (BASE_WORD(output) >> 2u) + LINE_AT(chunk, line, lines);
    [[unroll]] for (uint i = 0u; i < PLANES * PLANE_VECTORS; ++i) {
        uvec4 vector = uvec4(0u);
        [[unroll]] for (uint k = 0u; k < min(PLANE_WORDS, 4u); ++k) {
            vector[k] = planes[i * min(PLANE_WORDS, 4u) + k];
        }
        fours_output[at + i] = vector;
    }
    uint behind[8];
    [[unroll]] for (uint plane = 0u; plane < PLANES; ++plane) {
        behind[plane] = byte_sums[plane];
    }
    behind[LINE_UNIT] = floatBitsToUint(row_units[0]);
    behind[LINE_SCALE] = floatBitsToUint(row_scales[0]);
    behind[LINE_RESTS] = rests[0];
    behind[LINE_TERMS] = SUM_OF_TERMS;
    fours_output[at + PLANE_SPACE] = uvec4(behind[0], behind[1], behind[2], behind[3]);
    fours_output[at + PLANE_SPACE + 1u] = uvec4(behind[4], behind[5], behind[6], LINE_TERMS == 7u ? behind[7] : 0u);
}
