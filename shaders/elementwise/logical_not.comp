// ELEMENT_WISE_LOGICAL_NOT: f(x) = 1 if x is zero, else 0.
#include "elementwise/elementwise_operands.glsl"

#define OPERATION(x) uint((x) == 0u)
#include "elementwise/elementwise.glsl"
