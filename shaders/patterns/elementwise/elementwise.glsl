// Calls OPERATION(value of input 0, …) for every element; included last by an operator's file.
#if WALK == 0
#include "elementwise/elementwise_contiguous.glsl"
#elif WALK == 1
#include "elementwise/elementwise_rows.glsl"
#elif WALK == 2
#include "elementwise/elementwise_tiled.glsl"
#else
#include "elementwise/elementwise_strided.glsl"
#endif
