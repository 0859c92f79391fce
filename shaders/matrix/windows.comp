
// CONVOLUTION of few channels for each result, on GPUs.
#include "products/matrix_windows.glsl"
