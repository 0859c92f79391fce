// Which elements are not zero, in row-major order: an invocation goes through a segment of SEGMENT neighbours, first to count
// them, and, when the numbers before it are known, once more to write their coordinates. It waits for nobody.
//
// The numbers lie in levels: level 0 has one for each segment, and each further one a number for SEGMENT of the level below.
// prefix_numbers.comp turns the numbers of each such group into how many come before within the group.
//
// The compile script passes UNIT_BITS, the width of an element. A file that defines WRITES_COORDINATES writes them.
#define LANES 4
#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    // Where each operand begins in its buffer, in words; a multiple of 4.
    uint base_input, base_numbers;
#ifdef WRITES_COORDINATES
    uint base_total, base_coordinates;
#endif
    uint elements;
} parameters;

#include "buffers.glsl"

BUFFER(0, input)
BUFFER(1, numbers)
#ifdef WRITES_COORDINATES
BUFFER(2, total)
BUFFER(3, coordinates)
#endif

#include "axes.glsl"

// Axes that are not folded, axis 0 the innermost one: their coordinates are what is wanted.
ALL_STRIDES(input, 12)
layout(constant_id = 20) const uint MAGNITUDE = 0xffffffffu; // bits of an element that are not all 0 where it is not zero
layout(constant_id = 21) const uint COLUMNS = 1u;
layout(constant_id = 22) const uint ROW_STEP = 1u;
layout(constant_id = 23) const uint COLUMN_STEP = 1u;

#define SEGMENT 64u
#define SEGMENT_BITS 6u

#if UNIT_BITS == 32
#define LOAD_ELEMENT(offset) words_input[BASE_WORD(input) + (offset)]
#elif UNIT_BITS == 16
#define LOAD_ELEMENT(offset) LOAD(uint16, words_input, BASE(16, input) + (offset))
#else
#define LOAD_ELEMENT(offset) LOAD(uint8, words_input, BASE(8, input) + (offset))
#endif

#define MOVE_ALONG(axis) \
    if (SIZE_##axis > 1u) { \
        offset += element % SIZE_##axis * STRIDE_input_##axis; \
        element /= SIZE_##axis; \
    }
bool is_nonzero(uint element) {
    uint offset = 0u;
    MOVE_ALONG(0) MOVE_ALONG(1) MOVE_ALONG(2) MOVE_ALONG(3) MOVE_ALONG(4) MOVE_ALONG(5) MOVE_ALONG(6) MOVE_ALONG(7)
    return (LOAD_ELEMENT(offset) & MAGNITUDE) != 0u;
}
