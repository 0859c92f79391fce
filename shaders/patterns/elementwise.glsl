// Calls OPERATION(value of input 0, …) for every element; included last by an operator's file.
#if STRIDED
#include "elementwise_strided.glsl"
#else
#include "elementwise_contiguous.glsl"
#endif
