#define LONG_OPERATION
#include "elementwise/elementwise_operands.glsl"
#include "special_attribute.glsl"
#include "power.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(constant_power, INPUT_0)(SCALED(x), ATTRIBUTE_EXPONENT, SPECIAL_ATTRIBUTE)
