// A step of MEAN_VARIANCE_NORMALIZATION: 1 / sqrt(variance + Epsilon), each step rounded.
#include "arithmetic.glsl"
#include "division.glsl"

#define OPERATION(variance) recip_f32(sqrt_f32(add_f32(variance, parameters.attributes[0])))
