// NONZERO_COORDINATES: the coordinates of what is not zero.
// The coordinates of the elements that are not zero, a row for each; then a row of zeros for each of the others.
#define WRITES_COORDINATES
#include "movement/nonzero_elements.glsl"

// Where the levels of numbers begin, in words of their memory.
layout(constant_id = 24) const uint LEVELS = 1u;
layout(constant_id = 25) const uint LEVEL_1 = 0u;
layout(constant_id = 26) const uint LEVEL_2 = 0u;
layout(constant_id = 27) const uint LEVEL_3 = 0u;
layout(constant_id = 28) const uint LEVEL_4 = 0u;

#define ADD_LEVEL(n) \
    if (LEVELS > n) { \
        before += words_numbers[BASE_WORD(numbers) + LEVEL_##n + (segment >> (n * SEGMENT_BITS))]; \
    }

#define WRITE_COORDINATE(axis) \
    if (axis < COLUMNS) { \
        words_coordinates[offset + (COLUMNS - 1u - axis) * COLUMN_STEP] = is_there ? element % SIZE_##axis : 0u; \
        element /= SIZE_##axis; \
    }
void write_row(uint row, uint element, bool is_there) {
    uint offset = BASE_WORD(coordinates) + row * ROW_STEP;
    WRITE_COORDINATE(0) WRITE_COORDINATE(1) WRITE_COORDINATE(2) WRITE_COORDINATE(3)
    WRITE_COORDINATE(4) WRITE_COORDINATE(5) WRITE_COORDINATE(6) WRITE_COORDINATE(7)
}

void main() {
    uint segment = invocation_index();
    uint first = segment * SEGMENT;
    if (segment >= (parameters.elements + (SEGMENT - 1u)) / SEGMENT) { return; }
    uint before = words_numbers[BASE_WORD(numbers) + segment];
    ADD_LEVEL(1) ADD_LEVEL(2) ADD_LEVEL(3) ADD_LEVEL(4)
    uint total = words_total[BASE_WORD(total)];
    uint end = min(parameters.elements - first, SEGMENT);
    for (uint k = 0u; k < end; ++k) {
        uint element = first + k;
        bool is_there = is_nonzero(element);
        write_row(is_there ? before : total + (element - before), element, is_there);
        before += is_there ? 1u : 0u;
    }
}
