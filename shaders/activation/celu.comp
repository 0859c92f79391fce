#include "special_attribute.glsl"
#include "celu.glsl"

#define OPERATION(x) FORM(celu, INPUT_0)(x, ATTRIBUTE_ALPHA, SPECIAL_ATTRIBUTE)
