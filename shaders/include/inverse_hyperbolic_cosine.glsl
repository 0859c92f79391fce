// The inverse hyperbolic cosine: a square in z = x - 1 in each of many intervals.
#ifndef INVERSE_HYPERBOLIC_COSINE_GLSL
#define INVERSE_HYPERBOLIC_COSINE_GLSL

#include "coefficients.glsl"
#include "inverse_hyperbolic.glsl"

// Rows for 2^-8 <= z < 2^13: 128 from a power of two to the next, so that 16 bits of z tell them apart.
#define ACOSH_FIRST 0x3b800000u
#define ACOSH_END 0x46000000u

// acosh(1 + z) where z has no row. Near zero that is sqrt(2 * z) * (1 - z / 12 + 3 / 160 * z^2); far away ln(2 * x).
float acosh_without_row(float x, float z) {
    float value;
    if (floatBitsToUint(z) < ACOSH_FIRST) {
        precise float doubled = z + z;
        Root root = root_head(doubled);
        precise float linear = exact_product_plus(-root.head, root.head, doubled) * root.half_inverse;
        precise float root_rest = linear + (linear * linear) * root.half_inverse;
        precise float series = -0.0833333358 + z * 0.0187500007;
        precise float sum = root.head + (root_rest + ((root.head + root_rest) * z) * series);
        value = sum;
    } else {
        value = logarithm_of_double(x);
    }
    return value;
}

// acosh x. Of 1 +0, of what is below 1 NaN. x - 1 is exact wherever it has a row. Largest error over all 2^32 inputs: 0.5210 ULP,
// at 3.043018 (0x4042c0cf). 6 float and 5 integer operations for 2^-8 <= x - 1 < 2^13.
uint acosh_f32(uint x) {
    precise float a = uintBitsToFloat(x);
    precise float z = a - 1.0;
    uint bits = floatBitsToUint(z);
    uint result = floatBitsToUint(value_by_leading_bits(z, ACOSH_ROWS, ACOSH_FIRST >> 16, (ACOSH_END >> 16) - 1u));
    if (bits - ACOSH_FIRST >= ACOSH_END - ACOSH_FIRST) {
        bool is_defined = int(x) >= int(ONE_F32) && int(x) <= int(INFINITY_F32);
        result = is_defined ? floatBitsToUint(acosh_without_row(a, z)) : NAN_F32;
    }
    return result;
}
FLOAT16_FORM_1(acosh)

// The same, but near 1 and far away (FAST_PATH_OPERATION, elementwise_contiguous.glsl).
uint ordinary_acosh_f32(uint x, out bool needs_slow_path) {
    precise float z = uintBitsToFloat(x) - 1.0;
    uint bits = floatBitsToUint(z);
    uint value = floatBitsToUint(value_by_leading_bits(z, ACOSH_ROWS, ACOSH_FIRST >> 16, (ACOSH_END >> 16) - 1u));
    needs_slow_path = bits < ACOSH_FIRST || (bits >= ACOSH_END && bits <= INFINITY_F32);
    return bits > INFINITY_F32 ? NAN_F32 : value; // below 1
}

#endif
