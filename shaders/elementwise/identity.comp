#include "prescaling.glsl"

#define OPERATION(x) SCALED(x)
