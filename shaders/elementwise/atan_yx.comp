#include "half_angle.glsl"
#include "inverse_trigonometry.glsl"

#define OPERATION(y, x) FORM(atan_yx, INPUT_0)(y, x)
