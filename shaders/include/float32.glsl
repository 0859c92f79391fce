// float32 arithmetic that gives the same bits on every device.
//
// Vulkan promises correctly rounded addition, subtraction and multiplication of normal numbers, and nothing more. So
// - every value that enters arithmetic first loses its denormals (as_float32), and every result does (as_result), because
//   devices are free to keep or to flush them: FLOAT32 denormals count as zero of their sign. A result counts as denormal
//   when its magnitude is below 2^-126 after rounding to 24 bits;
// - every intermediate is `precise` in its own function: the qualifier does not reach into functions that are called;
// - comparisons are made on the bits, as signed integers.
#ifndef FLOAT32_GLSL
#define FLOAT32_GLSL

#define SIGN_F32 0x80000000u
#define MAGNITUDE_F32 0x7fffffffu
#define INFINITY_F32 0x7f800000u
#define NAN_F32 0x7fc00000u
#define SMALLEST_NORMAL_F32 0x00800000u
#define ONE_F32 0x3f800000u

// The bits of a number without denormals: those become zeros of their sign.
uint without_denormal(uint x) { return (x & INFINITY_F32) == 0u ? x & SIGN_F32 : x; }

// A value as an operand of arithmetic.
float as_float32(uint x) { return uintBitsToFloat(without_denormal(x)); }

// The bits of what arithmetic gave: a NaN is the canonical one, denormals are zeros of their sign.
uint as_result(float value) {
    uint bits = floatBitsToUint(value);
    int magnitude = int(bits & MAGNITUDE_F32);
    uint finite = magnitude < int(SMALLEST_NORMAL_F32) ? bits & SIGN_F32 : bits;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : finite;
}

// 2^exponent, for -126 <= exponent <= 127.
float power_of_two(int exponent) { return uintBitsToFloat(uint(exponent + 127) << 23); }

#endif
