#include "shift.glsl"

#define OPERATION(a, b) FORM(shift_right, INPUT_0)(a, b)
