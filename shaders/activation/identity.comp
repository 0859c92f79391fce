// ACTIVATION_IDENTITY: f(x) = x.
#include "elementwise/elementwise_operands.glsl"

#define OPERATION(x) (x)
#include "elementwise/elementwise.glsl"
