#include "quantization.glsl"

#define QUANTIZED(x, scale, zero_point) \
    CONCATENATE(saturated_, OUTPUT)(FORM(rounded_quotient, INPUT_0)(x, scale) + int(zero_point))
#if HAS_ZERO_POINT_TENSOR
#define OPERATION(x, scale, zero_point) QUANTIZED(x, scale, zero_point)
#else
#define OPERATION(x, scale) QUANTIZED(x, scale, 0u)
#endif
