// The second step of LOCAL_RESPONSE_NORMALIZATION_GRAD: t = (g / D^Beta) * (f * (x / D)), each step rounded to float32.
#define LONG_OPERATION
#include "elementwise/elementwise_operands.glsl"
#include "arithmetic.glsl"
#include "division.glsl"
#include "power.glsl"
#include "widening.glsl"

uint response_term(uint x, uint g, uint base) {
    uint share = divide_f32(g, power_f32_by_f32(base, parameters.attributes[0]));
    return multiply_f32(share, multiply_f32(parameters.attributes[1], divide_f32(x, base)));
}

#define OPERATION(x, g, base) response_term(FORM(widened, INPUT_0)(x), FORM(widened, INPUT_1)(g), base)
