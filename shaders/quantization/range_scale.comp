// DYNAMIC_QUANTIZE_LINEAR: the scale and the zero point that follow from the smallest and the largest element.
#include "elementwise/range_scale.glsl"
