// ELEMENT_WISE_THRESHOLD: f(x) = max(x, Min), x being x * Scale + Bias when ScaleBias is given. Min arrives in the
// tensor's data type, a NaN as the canonical one: that is the result for NaN. The x * Scale + Bias step is exact and
// rounded once.
#version 450
#extension GL_GOOGLE_include_directive : require
#define INPUT_COUNT 1
#if HAS_SCALE_BIAS
#define LONG_OPERATION
#endif
#include "elementwise_operands.glsl"
#include "comparison.glsl"
#if HAS_SCALE_BIAS
#include "scale_bias.glsl"
#endif

uint threshold(uint x)
{
#if HAS_SCALE_BIAS
    x = CONCATENATE(scale_bias_, INPUT_0)(x, ATTRIBUTE_SCALE_BIAS_SCALE, ATTRIBUTE_SCALE_BIAS_BIAS);
#endif
    return FORM(larger, INPUT_0)(x, ATTRIBUTE_MIN);
}

#define OPERATION(x) threshold(x)
#include "elementwise.glsl"
