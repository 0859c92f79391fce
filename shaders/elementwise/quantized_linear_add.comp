// ELEMENT_WISE_QUANTIZED_LINEAR_ADD: y = (a - a_zero) * a_scale + (b - b_zero) * b_scale;
// f = clamp(round(y / scale) + zero), halves to even, by the exact y and quotient. A zero point that is absent is 0.
#define LONG_OPERATION
#include "elementwise/elementwise_operands.glsl"
#include "quantization.glsl"
#include "signs.glsl"

#define DIFFERENCE(group, x, zero) (int(EXTENDED(INPUT_0, HAS_SIGN(group), x)) - int(EXTENDED(INPUT_0, HAS_SIGN(group), zero)))
#define SUM(a, a_scale, a_zero, b, b_scale, b_zero, scale, zero) \
    saturated_byte(HAS_SIGN(2), \
        rounded_sum_quotient(DIFFERENCE(0, a, a_zero), a_scale, DIFFERENCE(1, b, b_zero), b_scale, scale) \
            + int(EXTENDED(OUTPUT, HAS_SIGN(2), zero)))

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
