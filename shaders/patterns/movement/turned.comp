// Transpositions of narrow elements whose lines do not begin at words.
// A transposition of elements of BITS = 8 or 16 bits whose lines begin anywhere in a word: the source has its neighbours along the axis
// of lines, the target along axis 0. A work group takes a tile of TILE_ALONG x TILE_LINES elements through shared memory: it loads them
// as the source has them, and stores them as words of the target. Words that a tile shares with others are changed by atomics.
#extension GL_EXT_control_flow_attributes : require
#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_source, base_target;
    uint work_items;   // tiles
    uint first_source; // the element whose coordinates are all 0
    uint first_target;
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, source)
BUFFER(1, target)

// Axis 0 is the target's, axis 1 that of lines, and the others lead from one transposition to the next.
#include "axes.glsl"
ALL_STRIDES(source, 12)
ALL_STRIDES(target, 20)
layout(constant_id = 28) const uint TILE_ALONG = 64u; // powers of two; their product is TILE_ELEMENTS
layout(constant_id = 29) const uint TILE_LINES = 32u;

#define TILE_ELEMENTS 2048u
#define MOST_ALONG 128u
#define PER_WORD (32u / BITS)
#define MASK (0xffffffffu >> (32u - BITS))
#define PITCH (TILE_LINES + 1u) // odd: neither way through the tile meets one bank again and again
#define WORDS_OF_LINE (TILE_ALONG / PER_WORD + 1u)
#define EACH_LOAD (TILE_ELEMENTS / 256u)

shared uint tile[TILE_ELEMENTS + MOST_ALONG];

#define MOVE(axis, coordinate) source += coordinate * STRIDE_source_##axis; target += coordinate * STRIDE_target_##axis;

STORES_BITS(store_word, words_target)

void main() {
    WORK_GROUP(item)
    uint own = gl_LocalInvocationID.x;
    uint source = BASE(BITS, source) + parameters.first_source;
    uint target = BASE(BITS, target) + parameters.first_target;
    uint tiles_along = (SIZE_0 + TILE_ALONG - 1u) / TILE_ALONG;
    uint tiles_of_lines = (SIZE_1 + TILE_LINES - 1u) / TILE_LINES;
    uint first_along = item % tiles_along * TILE_ALONG;
    item /= tiles_along;
    uint first_line = item % tiles_of_lines * TILE_LINES;
    item /= tiles_of_lines;
    MOVE_BY(item, 2) MOVE_BY(item, 3) MOVE_BY(item, 4) MOVE_BY(item, 5) MOVE_BY(item, 6) MOVE_BY(item, 7)
    uint along = min(TILE_ALONG, SIZE_0 - first_along);
    uint lines = min(TILE_LINES, SIZE_1 - first_line);
    source += first_along * STRIDE_source_0 + first_line;
    target += first_along + first_line * STRIDE_target_1;

    uint elements[EACH_LOAD]; // all are on their way before any is waited for
    [[unroll]] for (uint i = 0u; i < EACH_LOAD; ++i) {
        uint number = own + i * 256u;
        uint line = number % TILE_LINES;
        uint place = number / TILE_LINES;
        elements[i] = 0u;
        if (line < lines && place < along) {
            uint index = source + place * STRIDE_source_0 + line;
            elements[i] = words_source[index / PER_WORD] >> (index % PER_WORD * BITS);
        }
    }
    [[unroll]] for (uint i = 0u; i < EACH_LOAD; ++i) {
        uint number = own + i * 256u;
        tile[number / TILE_LINES * PITCH + number % TILE_LINES] = elements[i] & MASK;
    }
    barrier();
    for (uint number = own; number < WORDS_OF_LINE * lines; number += 256u) {
        uint line = number / WORDS_OF_LINE;
        uint begin = target + line * STRIDE_target_1;
        uint place = number % WORDS_OF_LINE * PER_WORD - begin % PER_WORD; // below 0 in front of the line: beyond its end
        uint bits = 0u;
        uint mask = 0u;
        [[unroll]] for (uint part = 0u; part < PER_WORD; ++part) {
            if (place + part < along) {
                bits |= tile[(place + part) * PITCH + line] << (part * BITS);
                mask |= MASK << (part * BITS);
            }
        }
        store_word(begin / PER_WORD + number % WORDS_OF_LINE, bits, mask);
    }
}
