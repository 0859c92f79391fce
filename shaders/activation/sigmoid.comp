// ACTIVATION_SIGMOID: f(x) = 1 / (1 + e^-x).
#include "sigmoid.glsl"

#define OPERATION(x) FORM(sigmoid, INPUT_0)(x)
