// DEPTH_TO_SPACE, SPACE_TO_DEPTH and other copies that make lines of which every second or fourth element lies side by side elsewhere.
// Elements of PLANES lines alternate in one line: they go into it, or, with APART, come from it; BITS wide each. An invocation makes a vector of
// 128 bits of that line, or one of each of the others: neighbours store neighbouring vectors. (What stores 16 bytes 32 bytes apart takes half as
// long again: sectors of 32 bytes are then written in halves.)
#extension GL_EXT_control_flow_attributes : require
#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    // Where each operand begins in its buffer, in words; a multiple of 4.
    uint base_source, base_target;
    uint work_items;  // invocations
    uint first_lines; // the vector (or piece of one) of the first line whose coordinates are all 0
    uint first_joint; // the vector of the line that has all
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, source)
BUFFER(1, target)

// All strides in vectors, of lines whose elements come together in what goes into one; axis 0 lies along the lines.
#include "axes.glsl"
ALL_STRIDES(lines, 12)
ALL_STRIDES(joint, 20)
layout(constant_id = 28) const uint LINE_STEP = 0u; // from line to line

#define MOVE(axis, coordinate) lines += coordinate * STRIDE_lines_##axis; joint += coordinate * STRIDE_joint_##axis;

#define ELEMENTS_OF_VECTOR (128u / BITS)
#define ELEMENTS_OF_WORD (32u / BITS)
#define MASK (0xffffffffu >> (32u - BITS))
#define ELEMENT_OF(words, i) ((words[(i) / ELEMENTS_OF_WORD] >> ((i) % ELEMENTS_OF_WORD * BITS)) & MASK)
#define PUT(words, i, element) words[(i) / ELEMENTS_OF_WORD] |= (element) << ((i) % ELEMENTS_OF_WORD * BITS);

// What goes into a vector from each line.
#if PLANES == 2
#define VECTOR_OF_PLANE uvec2
#define VECTOR_AT(offset) pairs_source[offset]
#else
#define VECTOR_OF_PLANE uint[1]
#define VECTOR_AT(offset) uint[1](words_source[offset])
#endif

void main() {
    WORK_ITEM(item)
    uint lines = parameters.first_lines;
    uint joint = parameters.first_joint;
    MOVE_BY_EIGHT(item)
#ifdef APART
    uint source = (BASE_WORD(source) >> 2u) + joint;
    uint target = (BASE_WORD(target) >> 2u) + lines;
    uvec4 given[PLANES];
    [[unroll]] for (uint plane = 0u; plane < PLANES; ++plane) {
        given[plane] = fours_source[source + plane];
    }
    [[unroll]] for (uint plane = 0u; plane < PLANES; ++plane) {
        uvec4 vector = uvec4(0u);
        [[unroll]] for (uint i = 0u; i < ELEMENTS_OF_VECTOR; ++i) {
            uint from = i * PLANES + plane;
            PUT(vector, i, ELEMENT_OF(given[from / ELEMENTS_OF_VECTOR], from % ELEMENTS_OF_VECTOR))
        }
        fours_target[target + plane * LINE_STEP] = vector;
    }
#else
    uvec4 vector = uvec4(0u);
    [[unroll]] for (uint plane = 0u; plane < PLANES; ++plane) {
        VECTOR_OF_PLANE loaded = VECTOR_AT(BASE_WORD(source) / (4u / PLANES) + lines + plane * LINE_STEP);
        [[unroll]] for (uint i = 0u; i < ELEMENTS_OF_VECTOR / PLANES; ++i) {
            PUT(vector, i * PLANES + plane, ELEMENT_OF(loaded, i))
        }
    }
    fours_target[(BASE_WORD(target) >> 2u) + joint] = vector;
#endif
}
