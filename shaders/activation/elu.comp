// ACTIVATION_ELU: f(x) = x if x >= 0, else Alpha * (e^x - 1).
#include "special_attribute.glsl"
#include "exponential_linear.glsl"

#define OPERATION(x) FORM(elu, INPUT_0)(x, ATTRIBUTE_ALPHA, SPECIAL_ATTRIBUTE)
