
// CONVOLUTION with a filter for each channel, of channels that lie behind one another, on GPUs.
#include "products/matrix_depthwise.glsl"
