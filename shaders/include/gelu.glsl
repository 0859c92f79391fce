// The Gaussian error linear unit: x times the normal distribution's probability P(x) of values below x.
//
// P(c + d) = P(c) + p(c) * (d - c d^2 / 2 + (c^2 - 1) d^3 / 6 - (c^3 - 3 c) d^4 / 24 ...), with the density p; the points c are the
// multiples of 2^-7. P(c) is there in two words, the first of 12 bits, so that the products of x's halves with it are
// exact and one rounding decides the result.
#ifndef GELU_GLSL
#define GELU_GLSL

#include "coefficients.glsl"
#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"

#define GELU_POINTS 98304.0 // 1.5 * 2^16: what is added to it is rounded to a multiple of 2^-7
#define GELU_FIRST_POINT 0x47bff940u // GELU_POINTS - 13.5
#define GELU_LAST_POINT 0x47c00400u // GELU_POINTS + 8

#define GELU_HALF 0x2b800000 // 2^-40: nearer to zero gelu(x) rounds to x / 2, and halves could be denormal
#define GELU_FAR 0x41001001 // above 8 + 2^-8, the last row's end: gelu(x) rounds to x
#define GELU_END 0x41580000 // 13.5: below its negative it is nearer to zero than 2^-126

// What becomes of value, the function where |x| <= 8 + 2^-8, elsewhere: rows below -8 have 2^64 times the probability.
uint slow_path_gelu(uint x, uint value) {
    int magnitude = int(x & MAGNITUDE_F32);
    int bits = int(value & MAGNITUDE_F32) - (64 << 23);
    bits = magnitude < GELU_END ? bits : 0;
    bits = magnitude < GELU_HALF ? magnitude - 0x00800000 : bits;
    bits = bits < int(SMALLEST_NORMAL_F32) ? 0 : bits;
    bits = magnitude >= GELU_FAR && int(x) >= 0 ? magnitude : bits;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : uint(bits) | (x & SIGN_F32);
}

// Largest error over all 2^32 inputs: 0.6838 ULP, at -12.3867 (0xc1462fec). 22 float and 7 integer operations where
// 2^-40 <= |x| <= 8.
uint gelu_f32(uint x) {
    precise float a = uintBitsToFloat(x);
    precise float sum = a + GELU_POINTS;
    uint number = min(max(floatBitsToUint(sum), GELU_FIRST_POINT), GELU_LAST_POINT);
    vec4 row = coefficient_row(GELU_ROWS - GELU_FIRST_POINT + number);
    precise float point = sum - GELU_POINTS;
    precise float d = a - point;
    precise float change = row.z * d;
    precise float product = point * d;
    precise float bend = ((d * d) * row.w) * exact_product_plus(-0.25, product, 1.0);
    bend = exact_product_plus(-0.5, product, bend);
    precise float low = row.y + (change + change * bend);
    precise float head = leading_half(a);
    precise float rest = a - head;
    precise float value = exact_product_plus(head, row.x, exact_product_plus(rest, row.x, a * low));
    uint result = floatBitsToUint(value);
    uint magnitude = x & MAGNITUDE_F32;
    if (magnitude - GELU_HALF >= GELU_FAR - GELU_HALF) { result = slow_path_gelu(x, result); }
    return result;
}
FLOAT16_FORM_1(gelu)

#endif
