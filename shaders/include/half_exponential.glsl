// The exponential function of FLOAT16, in plain float32.
//
// x * log2(e) = k + f with an integer k and |f| <= 0.5; then e^x = 2^k * 2^f. log2(e) is split into two numbers of 13 bits, whose products
// with x are exact, and a rest below 2^-27.7 (the split is that of W. J. Cody, W. Waite, «Software Manual for the Elementary Functions»,
// 1980). 2^f is a minimax polynomial of degree 5 (E. Remez, 1934), relative error 2^-23.4, whose coefficients were then moved by some of
// their last bits until as few results as possible of all 65,536 were not the nearest (one is left, of 0x1f79), and until each result
// was the same whether the polynomial's products are rounded or not: 32 ways. Nearly all devices multiply and add in one instruction.
#ifndef HALF_EXPONENTIAL_GLSL
#define HALF_EXPONENTIAL_GLSL

#include "error_free.glsl"
#include "float16.glsl"

#define FAR_EXPONENT_F16 0x4c80u // 18: from here on results are infinite or zero

// 2^f for |f| <= 0.5. 5 operations.
float power_of_fraction(float f) {
    float power = loose_product_plus(f, 0.00134243781, 0.00966030452);
    power = loose_product_plus(f, power, 0.0555122755);
    power = loose_product_plus(f, power, 0.240226045);
    power = loose_product_plus(f, power, 0.693146169);
    power = loose_product_plus(f, power, 1.0);
    return power;
}

// e^x of a number nearer to zero. 12 operations.
uint quick_exp_f16(uint x) {
    float value = uintBitsToFloat(float32_from_float16(x));
    // 1.5 * 2^23 leaves the nearest integer in the last bits of the sum.
    float shifted = exact_product_plus(value, 1.44262695, 12582912.0);
    precise float count = shifted - 12582912.0;
    float fraction = exact_product_plus(value, 6.80834055e-05, exact_product_plus(value, 1.44262695, -count));
    uint power = floatBitsToUint(power_of_fraction(fraction)) + (floatBitsToUint(shifted) << 23);
    return float16_from_number(power);
}

// e^x. 18 operations.
uint exp_f16(uint x) {
    uint result = quick_exp_f16(x);
    uint magnitude = x & 0x7fffu;
    if (magnitude >= FAR_EXPONENT_F16) {
        uint bound = (x & 0x8000u) == 0u ? INFINITY_F16 : 0u;
        result = magnitude > INFINITY_F16 ? NAN_F16 : bound;
    }
    return result;
}

#endif
