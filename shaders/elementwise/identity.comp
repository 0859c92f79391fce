// ELEMENT_WISE_IDENTITY: f(x) = x.
#include "elementwise/elementwise_operands.glsl"
#include "prescaling.glsl"

#define OPERATION(x) SCALED(x)
#include "elementwise/elementwise.glsl"
