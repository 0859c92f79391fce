// Sizes of the folded axes and strides of every operand along them, as specialization constants: axes of size 1 vanish when
// the pipeline is made.

#define GEOMETRY(axis, size_id) \
    layout(constant_id = size_id) const uint SIZE_##axis = 1u;
#define STRIDES(name, axis, stride_id) \
    layout(constant_id = stride_id) const uint STRIDE_##name##_##axis = 0u;

layout(constant_id = 2) const uint GROUPS_PER_ROW = 1u;
layout(constant_id = 3) const bool OUTPUT_PACKED = false;

GEOMETRY(0, 4) GEOMETRY(1, 5) GEOMETRY(2, 6) GEOMETRY(3, 7) GEOMETRY(4, 8) GEOMETRY(5, 9) GEOMETRY(6, 10) GEOMETRY(7, 11)

#define ALL_STRIDES(name, first_id) \
    STRIDES(name, 0, first_id) STRIDES(name, 1, first_id + 1) STRIDES(name, 2, first_id + 2) STRIDES(name, 3, first_id + 3) \
    STRIDES(name, 4, first_id + 4) STRIDES(name, 5, first_id + 5) STRIDES(name, 6, first_id + 6) STRIDES(name, 7, first_id + 7)
