// ELEMENT_WISE_BIT_NOT: f(x) = ~x, every bit inverted.
#include "elementwise/elementwise_operands.glsl"

#define OPERATION(x) (~(x))
#include "elementwise/elementwise.glsl"
