// ELEMENT_WISE_BIT_XOR: f(a, b) = a ^ b, the difference of the bits.
#include "elementwise/elementwise_operands.glsl"

#define OPERATION(a, b) ((a) ^ (b))
#include "elementwise/elementwise.glsl"
