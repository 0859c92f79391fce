#include "special_attribute.glsl"
#include "exponential_linear.glsl"

#define OPERATION(x) FORM(elu, INPUT_0)(x, ATTRIBUTE_ALPHA, SPECIAL_ATTRIBUTE)
