// ACTIVATION_CELU: f(x) = max(0, x) + min(0, Alpha * (e^(x / Alpha) - 1)).
#include "special_attribute.glsl"
#include "celu.glsl"

#define OPERATION(x) FORM(celu, INPUT_0)(x, ATTRIBUTE_ALPHA, SPECIAL_ATTRIBUTE)
