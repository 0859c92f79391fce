// SCALED(x): the first input, x * Scale + Bias when the operator's optional ScaleBias is given (HAS_SCALE_BIAS).
#if HAS_SCALE_BIAS
#include "scale_bias.glsl"
#define SCALED(x) CONCATENATE(scale_bias_, INPUT_0)(x, ATTRIBUTE_SCALE_BIAS_SCALE, ATTRIBUTE_SCALE_BIAS_BIAS)
#else
#define SCALED(x) (x)
#endif
