// QUANTIZED_LINEAR_AVERAGE_POOLING: f = clamp(round(sum * source_scale / (count * scale)) + zero), halves to even, by the exact
// quotient, where sum is that of a window's elements less source_zero, and count how many they are, or how many the window has
// with padding. A window of nothing but padding gives the zero point.
#define WINDOW_SCALES
#include "windows/window.glsl"
#include "exact_scaling.glsl"

#define STEPS_ABOVE_LEAST CONCATENATE(STEPS_ABOVE_LEAST_, INPUT)
#define STEPS_ABOVE_LEAST_uint8 0u
#define STEPS_ABOVE_LEAST_int8 128u

// Elements count from the data type's least value: 0 to 255.
#define TAKE(at, number) \
    { \
        uint steps = TAP(at) + STEPS_ABOVE_LEAST; \
        low += steps; \
        high += uint(low < steps); \
    }

VALUE(OUTPUT) pooled(Window window, out uint index) {
    index = 0u;
    uint low = 0u;
    uint high = 0u;
    if (IN_PARTS) {
        if (has_state()) {
            low = STATE(0u);
            high = STATE(1u);
        }
        FOR_EACH_TAP_IN_PART(window, TAKE)
        STATE(0u) = low;
        STATE(1u) = high;
    } else {
        FOR_EACH_TAP(window, TAKE)
    }
    uint channel = window.number;
    uint source_zero = 0u;
    int zero = 0;
    if (HAS_SOURCE_ZERO) {
        source_zero = LOAD(INPUT, words_source_zero, BASE(8, source_zero) + channel * SOURCE_ZERO_STEP);
    }
    if (HAS_ZERO) { zero = int(LOAD(OUTPUT, words_zero, BASE(8, zero) + channel * ZERO_STEP)); }
    uint zeros_high, zeros_low;
    umulExtended(taps_inside(window), source_zero + STEPS_ABOVE_LEAST, zeros_high, zeros_low);
    uvec3 sum = wide_difference(uvec3(low, high, 0u), uvec3(zeros_low, zeros_high, 0u));
    bool is_negative = int(sum.z) < 0;
    uvec3 magnitude = is_negative ? wide_difference(uvec3(0u), sum) : sum;
    uint count = COUNTS_PADDING ? TAPS_OF_WINDOW : max(taps_inside(window), 1u);
    uint source_scale = words_source_scale[BASE_WORD(source_scale) + channel * SOURCE_SCALE_STEP];
    uint scale = words_scale[BASE_WORD(scale) + channel * SCALE_STEP];
    int quotient = rounded_mean_quotient(is_negative, magnitude.xy, source_scale, count, scale);
    return CONCATENATE(saturated_, OUTPUT)(quotient + zero);
}
