#include "shift.glsl"

#define OPERATION(a, b) FORM(shift_left, INPUT_0)(a, b)
