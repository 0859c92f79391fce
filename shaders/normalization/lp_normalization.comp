// The last step of LP_NORMALIZATION: x / max(norm, Epsilon), rounded to FLOAT32; of FLOAT16 tensors once more.
#include "comparison.glsl"
#include "division.glsl"
#include "widening.glsl"

// A norm that is NaN stays so.
uint divisor_of(uint norm, uint epsilon) { return is_nan_f32(norm) ? norm : larger_f32(norm, epsilon); }

#define OPERATION(x, norm) \
    FORM(narrowed, OUTPUT)(divide_f32(FORM(widened, INPUT_0)(x), divisor_of(norm, parameters.attributes[0])))
