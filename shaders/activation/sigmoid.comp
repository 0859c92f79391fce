#include "sigmoid.glsl"

#define OPERATION(x) FORM(sigmoid, INPUT_0)(x)
