// Both operands of a product as vectors that nobody writes: NVIDIA's driver loads them by another way then (FLOAT16 of 4096 x 4096 x 4096 on an
// H100: 347 → 365 TFLOP/s). A product is never computed in place.

layout(std430, set = 0, binding = 0) readonly buffer ReadOnly_left { uvec4 read_left[]; };
layout(std430, set = 0, binding = 1) readonly buffer ReadOnly_right { uvec4 read_right[]; };
