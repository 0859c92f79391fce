// ACTIVATION_PARAMETERIZED_RELU: f(x, slope) = x if x >= 0, else slope * x. Floats: rounded once; FLOAT32 denormals count
// as zero. Integers wrap.
#include "piecewise_linear.glsl"

#define OPERATION(x, slope) FORM(parameterized_relu, INPUT_0)(x, slope)
