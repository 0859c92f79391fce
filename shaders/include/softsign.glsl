// x / (1 + |x|).
#ifndef SOFTSIGN_GLSL
#define SOFTSIGN_GLSL

#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"

// The quotient of |x| and the sum in two words. Outside of 2^-40 and 2^40 the result is x or 1, but for less than 2^-39 of
// it; there the quotient is taken at these bounds. 54 operations. Largest error over all 2^32 inputs: 0.50000 ULP, at
// 8.60460568e-05; less than one in a million is not correctly rounded.
uint softsign_f32(uint x) {
    int magnitude = int(x & MAGNITUDE_F32);
    float dividend = uintBitsToFloat(uint(min(max(magnitude, 0x2b800000), 0x53800000)));
    Double ratio = quotient(Double(dividend, 0.0), two_sum(1.0, dividend));
    uint small = without_denormal(x);
    uint number = magnitude < 0x2b800000 ? small : (x & SIGN_F32) | floatBitsToUint(ratio.high);
    return magnitude > int(INFINITY_F32) ? NAN_F32 : number;
}
FLOAT16_FORM_1(softsign)

#endif
