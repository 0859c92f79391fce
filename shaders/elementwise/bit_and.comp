// ELEMENT_WISE_BIT_AND: f(a, b) = a & b, the conjunction of the bits.
#include "elementwise/elementwise_operands.glsl"

#define OPERATION(a, b) ((a) & (b))
#include "elementwise/elementwise.glsl"
