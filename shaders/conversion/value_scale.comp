// VALUE_SCALE_2D: f(x, bias) = x * Scale + bias, rounded once; FLOAT32 denormals count as zero.
#include "elementwise/elementwise_operands.glsl"
#include "affine.glsl"

#define OPERATION(x, bias) FORM(affine, INPUT_0)(x, parameters.attributes[0], bias)
#include "elementwise/elementwise.glsl"
