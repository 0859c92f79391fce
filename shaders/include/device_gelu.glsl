// The Gaussian error linear unit for FLOAT16 results, for those who permit a device its own arithmetic: x times the normal distribution's
// probability of values below x, which is 2^p on the negative side, p a polynomial of |x|. Off by at most 0.005 of FLOAT16's places before
// it is rounded, and by what the device's exp2 is off, for which Vulkan allows about as much again. 12 operations, where
// gelu.glsl takes 29 and a row of coefficients.
#ifndef DEVICE_GELU_GLSL
#define DEVICE_GELU_GLSL

#include "device_arithmetic.glsl"

float device_gelu(float x) {
    float magnitude = uintBitsToFloat(floatBitsToUint(x) & 0x7fffffffu);
    float power = device_product_plus(-1.0332672673030174e-06, magnitude, 4.9473237595520914e-05);
    power = device_product_plus(power, magnitude, -0.0008591423975303769);
    power = device_product_plus(power, magnitude, 0.008301728405058384);
    power = device_product_plus(power, magnitude, -0.053657762706279755);
    power = device_product_plus(power, magnitude, -0.45867404341697693);
    power = device_product_plus(power, magnitude, -1.1511958837509155);
    power = device_product_plus(power, magnitude, -0.9999974966049194);
    float tail = exp2(power);
    precise float others = 1.0 - tail;
    precise float result = x * (floatBitsToInt(x) < 0 ? tail : others);
    return result;
}

// The same of the bits of a number that may be infinite: -0 is the limit on the negative side.
uint device_gelu_of_any(uint x) { return x == 0xff800000u ? 0x80000000u : floatBitsToUint(device_gelu(uintBitsToFloat(x))); }

#endif
