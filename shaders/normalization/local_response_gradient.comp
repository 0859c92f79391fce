// The last step of LOCAL_RESPONSE_NORMALIZATION_GRAD: g / D^Beta - x * sum, each step rounded to float32; of FLOAT16 tensors the result
// is rounded once more.
#define LONG_OPERATION
#include "elementwise/elementwise_operands.glsl"
#include "arithmetic.glsl"
#include "division.glsl"
#include "power.glsl"
#include "widening.glsl"

uint response_gradient(uint x, uint g, uint base, uint sum) {
    uint share = divide_f32(g, power_f32_by_f32(base, parameters.attributes[0]));
    return subtract_f32(share, multiply_f32(x, sum));
}

#define OPERATION(x, g, base, sum) \
    FORM(narrowed, OUTPUT)(response_gradient(FORM(widened, INPUT_0)(x), FORM(widened, INPUT_1)(g), base, sum))
