// ELEMENT_WISE_THRESHOLD: f(x) = max(x, Min), x being x * Scale + Bias when ScaleBias is given. Min arrives in the
// tensor's data type, a NaN as the canonical one: that is the result for NaN. The x * Scale + Bias step is exact and
// rounded once.
#include "comparison.glsl"
#include "prescaling.glsl"

#define OPERATION(x) FORM(larger, INPUT_0)(SCALED(x), ATTRIBUTE_MIN)
