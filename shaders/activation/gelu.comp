// ACTIVATION_GELU: f(x) = x / 2 * (1 + erf(x / sqrt(2))), to the last bit of x's negative side.
#define LONG_OPERATION
#include "elementwise/elementwise_operands.glsl"
#include "gelu.glsl"

#define OPERATION(x) FORM(gelu, INPUT_0)(x)
