// ELEMENT_WISE_COSH: f(x) = cosh(x).
#include "elementwise/elementwise_operands.glsl"
#include "hyperbolic.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(cosh, INPUT_0)(SCALED(x))
#include "elementwise/elementwise.glsl"
