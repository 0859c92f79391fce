// x / (1 + e^-x) for FLOAT16 results, for those who permit a device its own arithmetic: off by what its exp2 and its division are off.
#ifndef DEVICE_SWISH_GLSL
#define DEVICE_SWISH_GLSL

vec4 device_swish(vec4 x)
{
    precise vec4 exponent = x * -1.44269504;
    precise vec4 divisor = exp2(exponent) + 1.0;
    return x / divisor;
}

// The same of the bits of a number that may be infinite: -0 is the limit on the negative side.
uint device_swish_of_any(uint x) { return x == 0xff800000u ? 0x80000000u : floatBitsToUint(device_swish(vec4(uintBitsToFloat(x))).x); }

#endif
