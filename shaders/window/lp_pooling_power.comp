// LP_POOLING, LP_POOLING1 for P from 3 on: the largest magnitude m times (sum of (|x| / m)^P)^(1 / P), each step rounded, the sum
// in two words. P is a parameter. Padding adds nothing.
#include "windows/window.glsl"
#include "window_sums.glsl"
#include "arithmetic.glsl"
#include "division.glsl"
#include "power.glsl"

#define NUMBER_OF(type, x) CONCATENATE(NUMBER_OF_, type)(x)
#define NUMBER_OF_float32(x) without_denormal(x)
#define NUMBER_OF_float16(x) float32_from_float16(x)
#define ROUNDED(type, x) CONCATENATE(ROUNDED_, type)(x)
#define ROUNDED_float32(x) (x)
#define ROUNDED_float16(x) float16_from_float32(x)

#define TAKE_LARGEST(at, number) largest = max(largest, NUMBER_OF(INPUT, TAP(at)) & MAGNITUDE_F32);

#define TAKE_POWER(at, number) \
    { \
        uint x = NUMBER_OF(INPUT, TAP(at)) & MAGNITUDE_F32; \
        uint power = power_f32_by_u32(divide_f32(x, largest), parameters.exponent); \
        sum = with_number(sum, uintBitsToFloat(power)); \
    }

VALUE(OUTPUT) pooled(Window window, out uint index) {
    uint largest = 0u;
    Double sum = Double(0.0, 0.0);
    index = 0u;
    if (!IN_PARTS) {
        FOR_EACH_TAP_SLOWLY(window, TAKE_LARGEST)
    } else {
        if (has_state()) { largest = STATE(0u); }
        if (parameters.round == 0u) {
            FOR_EACH_TAP_IN_PART(window, TAKE_LARGEST)
            STATE(0u) = largest;
        }
    }
    if (largest == 0u || largest >= INFINITY_F32) {
        return ROUNDED(OUTPUT, largest > INFINITY_F32 ? NAN_F32 : largest);
    }
    if (!IN_PARTS) {
        FOR_EACH_TAP_SLOWLY(window, TAKE_POWER)
    } else if (parameters.round == 1u) {
        if (parameters.first_tap != 0u) { sum = Double(uintBitsToFloat(STATE(1u)), uintBitsToFloat(STATE(2u))); }
        FOR_EACH_TAP_IN_PART(window, TAKE_POWER)
        STATE(1u) = floatBitsToUint(sum.high);
        STATE(2u) = floatBitsToUint(sum.low);
    }
    uint inverse = divide_f32(ONE_F32, floatBitsToUint(float(int(min(parameters.exponent, 0x1000000u)))));
    uint root = power_f32_by_f32(floatBitsToUint(sum.high), inverse);
    return ROUNDED(OUTPUT, multiply_f32(largest, root));
}
