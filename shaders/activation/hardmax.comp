// ACTIVATION_HARDMAX, ACTIVATION_HARDMAX1: 1 at the first of a row's largest elements, 0 elsewhere. A number is above NaN.
#include "elementwise/elementwise_operands.glsl"

#define NAN_RANK BELOW_ALL
#define RESULT_WITHOUT_SUM 0x3f800000u
#include "rows/along_axes.glsl"
