#include "quantization.glsl"
#include "signs.glsl"

#define QUANTIZED(x, scale, zero_point) \
    saturated_byte(HAS_SIGN(0), FORM(rounded_quotient, INPUT_0)(x, scale) + int(EXTENDED(OUTPUT, HAS_SIGN(0), zero_point)))
#if HAS_ZERO_POINT_TENSOR
#define OPERATION(x, scale, zero_point) QUANTIZED(x, scale, zero_point)
#else
#define OPERATION(x, scale) QUANTIZED(x, scale, 0u)
#endif
