// JOIN, or SPLIT, of several tensors in one launch.
// PARTS tensors and one whose rows have theirs side by side, in vectors of 128 bits: all of them go into it (JOIN), or, with SPLIT, come from it.
// An invocation moves one vector, in the order of the whole.
#include "datatypes.glsl"

layout(local_size_x = 256) in;

#if PARTS == 2
#define EACH_PART(DO) DO(0) DO(1)
#elif PARTS == 3
#define EACH_PART(DO) DO(0) DO(1) DO(2)
#else
#define EACH_PART(DO) DO(0) DO(1) DO(2) DO(3)
#endif

#define BASE_OF_PART(n) uint base_part_##n;
layout(push_constant) uniform Parameters {
    // Where each operand begins in its buffer, in words; a multiple of 4.
#ifdef SPLIT
    uint base_whole;
#endif
    EACH_PART(BASE_OF_PART)
#ifndef SPLIT
    uint base_whole;
#endif
    uint work_items; // vectors
    uint first;      // the vector of the whole at which the first part begins
} parameters;

#define LANES 4
#include "buffers.glsl"

#ifdef SPLIT
BUFFER(0, whole)
BUFFER(1, part_0)
BUFFER(2, part_1)
#if PARTS > 2
BUFFER(3, part_2)
#endif
#if PARTS > 3
BUFFER(4, part_3)
#endif
#else
BUFFER(0, part_0)
BUFFER(1, part_1)
#if PARTS > 2
BUFFER(2, part_2)
#endif
#if PARTS > 3
BUFFER(3, part_3)
#endif
#if PARTS == 2
BUFFER(2, whole)
#elif PARTS == 3
BUFFER(3, whole)
#else
BUFFER(4, whole)
#endif
#endif

// All in vectors.
layout(constant_id = 2) const uint WIDTH = 1u; // of a row of all parts
layout(constant_id = 3) const uint STEP = 0u;  // from row to row of the whole
#define PART(n) \
    layout(constant_id = 4 + 2 * n) const uint START_##n = 0u; \
    layout(constant_id = 5 + 2 * n) const uint STEP_##n = 0u;
EACH_PART(PART)

#define POSITION(name, vector) fours_##name[(BASE_WORD(name) >> 2u) + (vector)]
#define IN_WHOLE POSITION(whole, parameters.first + row * STEP + column)
#define IN_PART(n) POSITION(part_##n, row * STEP_##n + column - START_##n)
// Parts lie behind each other: the last one that begins at this column or before it has the vector.
#ifdef SPLIT
#define MOVE(n) \
    if (part == uint(n)) { IN_PART(n) = vector; }
#else
#define MOVE(n) \
    if (part == uint(n)) { vector = IN_PART(n); }
#endif
#define FIND(n) \
    if (column >= START_##n) { part = uint(n); }

void main() {
    WORK_ITEM(item)
    uint row = item / WIDTH;
    uint column = item % WIDTH;
    uint part = 0u;
    EACH_PART(FIND)
#ifdef SPLIT
    uvec4 vector = IN_WHOLE;
    EACH_PART(MOVE)
#else
    uvec4 vector = uvec4(0u);
    EACH_PART(MOVE)
    IN_WHOLE = vector;
#endif
}
