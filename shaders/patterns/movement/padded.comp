// PADDING with a constant: the input in the middle, the value around it, in one go.
// A view in the middle of another one, and a value everywhere around it: the target is gone through once.
//
// The compile script passes UNIT_BITS, of what is moved at once, and LANES (gathering.glsl).
#extension GL_EXT_control_flow_attributes : require
#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    // Where each operand begins in its buffer, in words; a multiple of 4.
    uint base_sparse, base_dense;
    uint elements; // units that the target has
    uint value[4]; // as many copies of it as fill four words
} parameters;

#include "buffers.glsl"

BUFFER(0, sparse)
BUFFER(1, dense)

#include "axes.glsl"
#include "movement/units.glsl"

ALL_STRIDES(dense, 12)
ALL_STRIDES(sparse, 20)

// Where the middle begins along each axis, and how long it is.
#define MIDDLE(n, start_id, length_id) \
    layout(constant_id = start_id) const uint START_##n = 0u; \
    layout(constant_id = length_id) const uint LENGTH_##n = 1u;
MIDDLE(0, 28, 36) MIDDLE(1, 29, 37) MIDDLE(2, 30, 38) MIDDLE(3, 31, 39)
MIDDLE(4, 32, 40) MIDDLE(5, 33, 41) MIDDLE(6, 34, 42) MIDDLE(7, 35, 43)

#if UNIT_BITS == 128
#define PADDING_UNIT uvec4(parameters.value[0], parameters.value[1], parameters.value[2], parameters.value[3])
#elif UNIT_BITS == 64
#define PADDING_UNIT uvec2(parameters.value[0], parameters.value[1])
#else
#define PADDING_UNIT (parameters.value[0] & (0xffffffffu >> (32u - UNIT_BITS)))
#endif

// Where a unit lies in the target, and where in the source, if it lies there.
struct Offsets {
    uint dense, sparse;
    bool is_inside;
};

#define MOVE(axis, coordinate) \
    offsets.dense += coordinate * STRIDE_dense_##axis; \
    offsets.sparse += (coordinate - START_##axis) * STRIDE_sparse_##axis; \
    offsets.is_inside = offsets.is_inside && coordinate - START_##axis < LENGTH_##axis;
Offsets offsets_of(uint element) {
    Offsets offsets = Offsets(0u, 0u, true);
    MOVE_BY_EIGHT(element)
    return offsets;
}

UNIT unit_at(Offsets offsets) {
    UNIT unit = PADDING_UNIT;
    if (offsets.is_inside) { unit = LOAD_UNIT(sparse, offsets.sparse); }
    return unit;
}

#ifdef VECTORS
#include "movement/padded_vectors.glsl"
#else
#include "movement/gathering.glsl"
#endif
