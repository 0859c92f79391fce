// Calls OPERATION(value of input 0, …) for every element; included last by an operator's file.
#if ACCESS_ORDER == 0
#include "elementwise/elementwise_contiguous.glsl"
#elif ACCESS_ORDER == 1
#include "elementwise/elementwise_rows.glsl"
#elif ACCESS_ORDER == 2
#include "elementwise/elementwise_tiled.glsl"
#else
#include "elementwise/elementwise_strided.glsl"
#endif
