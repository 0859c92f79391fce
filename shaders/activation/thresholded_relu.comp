// ACTIVATION_THRESHOLDED_RELU: f(x) = x if x > Alpha, else 0.
#include "comparison.glsl"

#define OPERATION(x) (FORM(is_greater, INPUT_0)(x, ATTRIBUTE_ALPHA) ? (x) : 0u)
