// All comparisons: f(a, b) = 1 if a == b, or if a > b, or if a >= b, or the same of b and a; else 0. SPECIAL_ATTRIBUTE tells which one.
#include "comparison.glsl"
#include "signs.glsl"

#define RELATION (SPECIAL_ATTRIBUTE >> 8)
#define OPERATION(a, b) \
    uint(FORM(holds, INPUT_0)( \
        RELATION, HAS_SIGN(0), EXTENDED(INPUT_0, HAS_SIGN(0), a), EXTENDED(INPUT_0, HAS_SIGN(0), b)))
