// Sums of windows: the third step of LOCAL_RESPONSE_NORMALIZATION_GRAD.
#extension GL_EXT_control_flow_attributes : require
#define WINDOW_NUMBERS
#define LEAST_EXPONENT -60
#define SCALED_EXPONENT 40
#define MOST_EXPONENT 60
#define HAS_SIGN
#define WITH_TERM(sum, x, with) sum = with(sum, x);
#define RESULT_OF(sum, window) fast_two_sum(sum.high, sum.low)
#include "windows/window_sum.glsl"
