// VALUE_SCALE_2D: f(x, bias) = x * Scale + bias, rounded once; FLOAT32 denormals count as zero.
#include "affine.glsl"

#define OPERATION(x, bias) FORM(affine, INPUT_0)(x, parameters.attributes[0], bias)
