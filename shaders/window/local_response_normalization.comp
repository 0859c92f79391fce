// LOCAL_RESPONSE_NORMALIZATION: x / (Bias + Alpha / LocalSize * sum of squares)^Beta. The sum is kept in two words; it and every step
// behind it are rounded to float32. The parameters are Beta, Alpha / LocalSize and Bias. With QUARTERS the quick way comes first.
#extension GL_EXT_control_flow_attributes : require
#include "windows/local_response.glsl"
#include "windows/local_response_result.glsl"

// The square of a tap along the channels; 0 where there is none.
float square_of_tap(Window window, uint tap) {
    uint location = tap - window.depth_first;
    if (location >= window.depth_taps) { return 0.0; }
    precise float x = uintBitsToFloat(NUMBER_OF(INPUT, TAP(window.at + location * TAP_STEP_DEPTH)));
    precise float square = x * x;
    return square;
}

VALUE(OUTPUT) pooled(Window window, out uint index) {
    index = 0u;
    uint x = NUMBER_OF(INPUT, TAP(window.origin));
    if (QUARTERS != 0u) {
        float base = quick_base(
            square_of_tap(window, 0u), square_of_tap(window, 1u), square_of_tap(window, 2u), square_of_tap(window, 3u),
            square_of_tap(window, 4u), uintBitsToFloat(parameters.factor), uintBitsToFloat(parameters.summand));
        if (is_quick(x, base)) { return RESULT_FROM(OUTPUT, quotient_by_quarters(x, base, QUARTERS)); }
    }
    return any_response(x, window);
}
