// LOCAL_RESPONSE_NORMALIZATION: x / (Bias + Alpha / LocalSize * sum of squares)^Beta. The sum is kept in two words; it and every step
// behind it are rounded to float32. The parameters are Beta, Alpha / LocalSize and Bias.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "local_response.glsl"
#include "division.glsl"
#include "power.glsl"

#define RESULT_FROM(type, x) CONCATENATE(RESULT_FROM_, type)(x)
#define RESULT_FROM_float32(x) (x)
#define RESULT_FROM_float16(x) float16_from_float32(x)

VALUE(OUTPUT) pooled(Window window, out uint index)
{
    index = 0u;
    uint power = power_f32_by_f32(response_base(window), parameters.exponent);
    return RESULT_FROM(OUTPUT, divide_f32(NUMBER_OF(INPUT, TAP(window.origin)), power));
}
