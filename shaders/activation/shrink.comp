#define LONG_FOR_INTEGERS
#include "elementwise/elementwise_operands.glsl"
#include "shrink.glsl"

#define OPERATION(x) CONCATENATE(shrink_, INPUT_0)(x, ATTRIBUTE_BIAS, ATTRIBUTE_THRESHOLD)
