// ACTIVATION_SHRINK: f(x) = x - Bias if x > Threshold; x + Bias if x < -Threshold; 0 otherwise.
#define LONG_FOR_INTEGERS
#include "elementwise/elementwise_operands.glsl"
#include "shrink.glsl"

#define OPERATION(x) CONCATENATE(shrink_, INPUT_0)(x, ATTRIBUTE_BIAS, ATTRIBUTE_THRESHOLD)
