// ELEMENT_WISE_QUANTIZED_LINEAR_ADD: y = (a - a_zero) * a_scale + (b - b_zero) * b_scale;
// f = clamp(round(y / scale) + zero), halves to even, by the exact y and quotient. A zero point that is absent is 0.
#define LONG_OPERATION
#include "elementwise/elementwise_operands.glsl"
#include "quantization.glsl"

#define SUM(a, a_scale, a_zero, b, b_scale, b_zero, scale, zero) \
    CONCATENATE(saturated_, OUTPUT)( \
        rounded_sum_quotient(int(a) - int(a_zero), a_scale, int(b) - int(b_zero), b_scale, scale) + int(zero))

#if HAS_A_ZERO_POINT_TENSOR && HAS_B_ZERO_POINT_TENSOR && HAS_OUTPUT_ZERO_POINT_TENSOR
#define OPERATION(a, a_scale, a_zero, b, b_scale, b_zero, scale, zero) \
    SUM(a, a_scale, a_zero, b, b_scale, b_zero, scale, zero)
#elif HAS_A_ZERO_POINT_TENSOR && HAS_B_ZERO_POINT_TENSOR
#define OPERATION(a, a_scale, a_zero, b, b_scale, b_zero, scale) SUM(a, a_scale, a_zero, b, b_scale, b_zero, scale, 0u)
#elif HAS_A_ZERO_POINT_TENSOR && HAS_OUTPUT_ZERO_POINT_TENSOR
#define OPERATION(a, a_scale, a_zero, b, b_scale, scale, zero) SUM(a, a_scale, a_zero, b, b_scale, 0u, scale, zero)
#elif HAS_B_ZERO_POINT_TENSOR && HAS_OUTPUT_ZERO_POINT_TENSOR
#define OPERATION(a, a_scale, b, b_scale, b_zero, scale, zero) SUM(a, a_scale, 0u, b, b_scale, b_zero, scale, zero)
#elif HAS_A_ZERO_POINT_TENSOR
#define OPERATION(a, a_scale, a_zero, b, b_scale, scale) SUM(a, a_scale, a_zero, b, b_scale, 0u, scale, 0u)
#elif HAS_B_ZERO_POINT_TENSOR
#define OPERATION(a, a_scale, b, b_scale, b_zero, scale) SUM(a, a_scale, 0u, b, b_scale, b_zero, scale, 0u)
#elif HAS_OUTPUT_ZERO_POINT_TENSOR
#define OPERATION(a, a_scale, b, b_scale, scale, zero) SUM(a, a_scale, 0u, b, b_scale, 0u, scale, zero)
#else
#define OPERATION(a, a_scale, b, b_scale, scale) SUM(a, a_scale, 0u, b, b_scale, 0u, scale, 0u)
#endif
