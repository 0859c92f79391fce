// ELEMENT_WISE_BIT_OR: f(a, b) = a | b, the disjunction of the bits.
#include "elementwise/elementwise_operands.glsl"

#define OPERATION(a, b) ((a) | (b))
#include "elementwise/elementwise.glsl"
