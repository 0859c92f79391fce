// LOCAL_RESPONSE_NORMALIZATION: x / (Bias + Alpha / LocalSize * sum of squares)^Beta. The sum is kept in two words; it and every step
// behind it are rounded to float32. The parameters are Beta, Alpha / LocalSize and Bias.
#version 450
#extension GL_GOOGLE_include_directive : require
#define WINDOW_NUMBERS
#define LEAST_EXPONENT -30
#define SCALED_EXPONENT 40
#define MOST_EXPONENT 50
#define WITH_TERM(sum, x, with) \
    { \
        Double square = two_square(x); \
        sum = with_rest(with(sum, square.high), square.low); \
    }
#define RESULT_OF(sum, window) fast_two_sum(sum.high, sum.low)
#define RESULT_EXPONENT(exponent) (2 * exponent)
#define SUM_TYPE float32
#include "window_sum.glsl"
#include "arithmetic.glsl"
#include "division.glsl"
#include "power.glsl"

#define RESULT_FROM(type, x) CONCATENATE(RESULT_FROM_, type)(x)
#define RESULT_FROM_float32(x) (x)
#define RESULT_FROM_float16(x) float16_from_float32(x)

VALUE(OUTPUT) pooled(Window window, out uint index)
{
    index = 0u;
    uint base = add_f32(parameters.summand, multiply_f32(parameters.factor, window_sum(window)));
    uint power = power_f32_by_f32(base, parameters.exponent);
    return RESULT_FROM(OUTPUT, divide_f32(NUMBER_OF(INPUT, TAP(window.origin)), power));
}
