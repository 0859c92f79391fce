
// CONVOLUTION of tensors whose channels lie behind one another, by matrices that subgroups hold together.
#include "products/matrix_channels.glsl"
