#include "piecewise_linear.glsl"

#if INPUT_0_IS_FLOAT16
#define SLOW_PATH_BITS(word) (special_bits_f16(word) | uint(!is_quick_slope(ATTRIBUTE_ALPHA)))
#define FAST_OPERATION(x) quick_leaky_relu_f16(x, ATTRIBUTE_ALPHA)
#endif

#define OPERATION(x) FORM(leaky_relu, INPUT_0)(x, ATTRIBUTE_ALPHA)
