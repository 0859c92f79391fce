// ACTIVATION_SOFTSIGN: f(x) = x / (1 + |x|).
#include "softsign.glsl"

#define OPERATION(x) FORM(softsign, INPUT_0)(x)
