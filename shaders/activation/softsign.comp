#include "softsign.glsl"

#define OPERATION(x) FORM(softsign, INPUT_0)(x)
