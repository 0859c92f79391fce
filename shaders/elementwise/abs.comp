// ELEMENT_WISE_ABS: f(x) = |x|; integers wrap.
#include "elementwise/elementwise_operands.glsl"
#include "negation.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(absolute, INPUT_0)(SCALED(x))
#include "elementwise/elementwise.glsl"
