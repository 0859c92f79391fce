// What LOCAL_RESPONSE_NORMALIZATION divides by, before it is raised to a power: Bias + Alpha / LocalSize * sum of squares, each step rounded
// to float32. Included before the operator's own definitions are used: it defines those of window_sum.glsl.

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
#include "windows/window_sum.glsl"
#include "arithmetic.glsl"

uint response_base(Window window) {
    return add_f32(parameters.summand, multiply_f32(parameters.factor, window_sum(window)));
}
