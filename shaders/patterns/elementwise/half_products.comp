// A trial of FLOAT16 products: dmlvk/trials/half_trial.py.
// Products of FLOAT16 by the device's own arithmetic: every pair of numbers, times every factor. dmlvk/trials/half_trial.py looks whether
// they are rounded to nearest even, and denormal where they have to be.
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_numbers; // where operands begin in their buffers, in words
    uint base_factors, base_products, work_items;
    uint pairs; // of numbers
} parameters;

#define LANES 4
#include "datatypes.glsl"
#include "buffers.glsl"

BUFFER(0, numbers)
BUFFER(1, factors) // a pair of the same
BUFFER(2, products)

void main() {
    WORK_ITEM(item)
    uint factor = item / parameters.pairs;
    f16vec2 number = unpackFloat2x16(words_numbers[BASE_WORD(numbers) + item - factor * parameters.pairs]);
    precise f16vec2 product = number * unpackFloat2x16(words_factors[BASE_WORD(factors) + factor]);
    words_products[BASE_WORD(products) + item] = packFloat2x16(product);
}
