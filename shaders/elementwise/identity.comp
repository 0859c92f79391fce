// ELEMENT_WISE_IDENTITY: f(x) = x.
#include "prescaling.glsl"

#define OPERATION(x) SCALED(x)
