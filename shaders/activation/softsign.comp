// ACTIVATION_SOFTSIGN: f(x) = x / (1 + |x|).
#include "elementwise/elementwise_operands.glsl"
#include "softsign.glsl"

#define OPERATION(x) FORM(softsign, INPUT_0)(x)
#include "elementwise/elementwise.glsl"
