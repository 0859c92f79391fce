// ELEMENT_WISE_RECIP: f(x) = 1 / x; x being x * Scale + Bias when ScaleBias is given. Rounded once; FLOAT32 denormals count
// as zero.
#include "elementwise/elementwise_operands.glsl"
#include "division.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(recip, INPUT_0)(SCALED(x))
#include "elementwise/elementwise.glsl"
