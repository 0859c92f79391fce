// ELEMENT_WISE_NEGATE: f(x) = -x; integers wrap.
#include "elementwise/elementwise_operands.glsl"
#include "negation.glsl"

#define OPERATION(x) FORM(negated, INPUT_0)(x)
#include "elementwise/elementwise.glsl"
