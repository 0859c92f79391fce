// AVERAGE_POOLING, AVERAGE_POOLING1: the sum of a window's elements inside the input, divided by how many they are, or by how many
// the window has with padding. A window of nothing but padding gives +0.
#extension GL_EXT_control_flow_attributes : require
#define LEAST_EXPONENT -60
#define SCALED_EXPONENT 40
#define MOST_EXPONENT 60
#define HAS_SIGN
#define WITH_TERM(sum, x, with) sum = with(sum, x);
#define RESULT_OF(sum, window) average_of(sum, COUNTS_PADDING ? TAPS_OF_WINDOW : taps_inside(window))
#include "window_average.glsl"
#include "windows/window_sum.glsl"
