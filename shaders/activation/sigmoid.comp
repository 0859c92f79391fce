// ACTIVATION_SIGMOID: f(x) = 1 / (1 + e^-x).
#include "elementwise/elementwise_operands.glsl"
#include "sigmoid.glsl"

#define OPERATION(x) FORM(sigmoid, INPUT_0)(x)
#include "elementwise/elementwise.glsl"
