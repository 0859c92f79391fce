// Results of LOCAL_RESPONSE_NORMALIZATION, behind local_response.glsl.

#include "division.glsl"
#include "power.glsl"
#include "windows/quick_response.glsl"

// 4 Beta, where quick_response.glsl has it; else 0.
#ifdef WINDOW_IS_GIVEN
layout(constant_id = 2) const uint QUARTERS = 0u;
#else
layout(constant_id = 76) const uint QUARTERS = 0u;
#endif

#define RESULT_FROM(type, x) CONCATENATE(RESULT_FROM_, type)(x)
#define RESULT_FROM_float32(x) (x)
#define RESULT_FROM_float16(x) float16_from_float32(x)

// Of any elements, with any attributes.
VALUE(OUTPUT) any_response(uint x, Window window) {
    uint power = power_f32_by_f32(response_base(window), parameters.exponent);
    return RESULT_FROM(OUTPUT, divide_f32(x, power));
}
