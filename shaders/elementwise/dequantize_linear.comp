#include "quantization.glsl"

#if INPUT_0_BITS == 8 || (INPUT_0_BITS == 16 && OUTPUT_BITS == 32)
#define DEQUANTIZED FORM(dequantized_short, OUTPUT)
#elif INPUT_0_BITS == 16
#define DEQUANTIZED FORM(dequantized_medium, OUTPUT)
#else
#define DEQUANTIZED FORM(FORM(dequantized, INPUT_0), OUTPUT)
#endif
#if HAS_ZERO_POINT_TENSOR
#define OPERATION(x, scale, zero_point) DEQUANTIZED(x, zero_point, scale)
#else
#define OPERATION(x, scale) DEQUANTIZED(x, 0u, scale)
#endif
