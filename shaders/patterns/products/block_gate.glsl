// A product of a row and a column, and what the same row gives with another column of weights as its gate: swish(gate) * product, each
// step rounded as the operators round it (SwiGLU: Shazeer, 2020). Columns number 0 of an invocation are the gate's, numbers 1 the others.

#include "sigmoid.glsl"

BUFFER(5, packed_up)
BUFFER(6, scale_up)
BUFFER(7, zero_up)

DEFINE_WEIGHTS_OF(packed_up, scale_up, zero_up, weight_up_at)

// With 1 as the scale of the sigmoid's operand.
uint gated(uint gate, uint result) { return FORM(multiply, OPERAND)(FORM(swish, OPERAND)(gate, ONE_F32, ONE_F32), result); }
