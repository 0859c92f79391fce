// RESAMPLE_GRAD, RESAMPLE_GRAD1: gradients of any resampling.
#include "windows/gradient_sums.glsl"

#define OPERATION(number) gradient_of(number)
#include "elementwise/each_offset.glsl"
