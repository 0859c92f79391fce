// ELEMENT_WISE_ATAN_YX: f(y, x) = the angle of the point (x, y), zeros and infinities as in C99's Annex F.
#include "half_angle.glsl"
#include "inverse_trigonometry.glsl"

#define OPERATION(y, x) FORM(atan_yx, INPUT_0)(y, x)
