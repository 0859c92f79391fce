// LP_POOLING, LP_POOLING1 for P = 1, the sum of magnitudes, and P = 2, the square root of the sum of squares. The compile script
// passes P. Padding adds nothing.
#extension GL_EXT_control_flow_attributes : require
#if P == 1
#define LEAST_EXPONENT -60
#define SCALED_EXPONENT 40
#define MOST_EXPONENT 60
#define WITH_TERM(sum, x, with) sum = with(sum, uintBitsToFloat(floatBitsToUint(x) & MAGNITUDE_F32));
#define RESULT_OF(sum, window) sum
#else
#define LEAST_EXPONENT -30
#define SCALED_EXPONENT 40
#define MOST_EXPONENT 50
#define WITH_TERM(sum, x, with) \
    { \
        Double square = two_square(x); \
        sum = with_rest(with(sum, square.high), square.low); \
    }
#define RESULT_OF(sum, window) square_root(sum)
#endif
#include "windows/window_sum.glsl"
