// ACTIVATION_RELU_GRAD: f(x, gradient) = the gradient if x > 0, else 0.
#include "comparison.glsl"

#define OPERATION(x, gradient) (FORM(is_greater, INPUT_0)(x, 0u) ? (gradient) : 0u)
