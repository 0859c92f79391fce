// ELEMENT_WISE_NEGATE: f(x) = -x; integers wrap.
#include "negation.glsl"

#define OPERATION(x) FORM(negated, INPUT_0)(x)
