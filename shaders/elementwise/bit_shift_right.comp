// ELEMENT_WISE_BIT_SHIFT_RIGHT: f(a, b) = a >> b, zeros coming in; 0 when b is the width of the type or more.
#include "shift.glsl"

#define OPERATION(a, b) FORM(shift_right, INPUT_0)(a, b)
