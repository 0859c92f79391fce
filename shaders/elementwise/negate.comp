#include "negation.glsl"

#define OPERATION(x) FORM(negated, INPUT_0)(x)
