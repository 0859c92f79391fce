// ELEMENT_WISE_BIT_SHIFT_LEFT: f(a, b) = a << b; 0 when b is the width of the type or more.
#include "shift.glsl"

#define OPERATION(a, b) FORM(shift_left, INPUT_0)(a, b)
