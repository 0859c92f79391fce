#include "quantization.glsl"
#include "signs.glsl"

#if INPUT_0_BITS == 8 || (INPUT_0_BITS == 16 && OUTPUT_BITS == 32)
#define DEQUANTIZED(x, zero_point, scale) FORM(dequantized_short, OUTPUT)(x, zero_point, scale)
#elif INPUT_0_BITS == 16
#define DEQUANTIZED(x, zero_point, scale) FORM(dequantized_medium, OUTPUT)(x, zero_point, scale)
#else
#define DEQUANTIZED(x, zero_point, scale) FORM(dequantized_long, OUTPUT)(HAS_SIGN(0), x, zero_point, scale)
#endif
#define INTEGER(x) EXTENDED(INPUT_0, HAS_SIGN(0), x)
#if HAS_ZERO_POINT_TENSOR
#define OPERATION(x, scale, zero_point) DEQUANTIZED(INTEGER(x), INTEGER(zero_point), scale)
#else
#define OPERATION(x, scale) DEQUANTIZED(INTEGER(x), 0u, scale)
#endif
