// ELEMENT_WISE_ADD1 with a fused activation: f(a, b) = FusedActivation(a + b), the sum being rounded as ELEMENT_WISE_ADD does.
#include "fused_activation.glsl"
#include "elementwise/elementwise_operands.glsl"
#include "arithmetic.glsl"

#define OPERATION(a, b) ACTIVATED(FORM(add, INPUT_0)(a, b))
