// What a sum of products is made of, wherever its operands lie: matrix.glsl says in which steps. Operands are bits of float32, never
// denormal.
//
// The compile script passes CONVOLUTION (0 or 1), OPERAND (float32 or float16), OPERAND_BITS and, to those who permit it,
// DEVICE_ARITHMETIC.
#ifndef MATRIX_TERMS_GLSL
#define MATRIX_TERMS_GLSL

#include "arithmetic.glsl"
#include "datatypes.glsl"

#ifdef DEVICE_ARITHMETIC
#include "device_arithmetic.glsl"
#define LOOKS_AT_DENORMALS 0
#else
#define LOOKS_AT_DENORMALS (OPERAND_BITS == 32)
#endif

#define PADDING SIGN_F32 // -0, which no operand is

#if OPERAND_BITS == 32
uint operand(uint bits) { return (bits & INFINITY_F32) == 0u ? 0u : bits; }
#else
uint operand(uint bits) {
    uint wide = float32_from_float16(bits);
    return wide == SIGN_F32 ? 0u : wide;
}
#endif

float product_plus(float a, float b, float sum) {
#ifdef DEVICE_ARITHMETIC
    return device_product_plus(a, b, sum);
#elif OPERAND_BITS == 32
    precise float product = a * b;
    precise float next = sum + product;
    return next;
#else
    return exact_product_plus(a, b, sum); // of two float16: 22 bits, a multiple of 2^-48
#endif
}

// The same in two steps: products come from one invocation, and are added by another.
float rounded_product(float a, float b) {
    precise float product = a * b; // of two float16: exact
    return product;
}
float rounded_sum(float sum, float product) {
    precise float next = sum + product;
    return next;
}

// Sums of sums.
uint sum_plus(uint sum, uint next) {
    uint total = plain_sum(sum, next);
    return (total & MAGNITUDE_F32) < SMALLEST_NORMAL_F32 ? 0u : total;
}

// The smallest operand of a tile that is not zero: twice its magnitude less one, so that zeros count as the largest.
#define NO_LOWEST 0xffffffffu
uint lowest_of(uint bits) { return (bits << 1u) - 1u; }
uint lowest_of_four(uvec4 four) {
    return min(min(lowest_of(four.x), lowest_of(four.y)), min(lowest_of(four.z), lowest_of(four.w)));
}
// Whether no product and no sum of such operands is denormal. With |a| >= 2^(e - 127) and |b| >= 2^(f - 127), e + f >= 152, a product is
// zero or at least 2^-102; why that is enough says is_plain.
bool has_no_denormals(uint left_lowest, uint right_lowest) {
    bool is_zero = left_lowest == NO_LOWEST || right_lowest == NO_LOWEST;
    return is_zero || ((left_lowest + 1u) >> 24u) + ((right_lowest + 1u) >> 24u) >= 152u;
}

// What a work group's invocations look for together, from LOOK_FROM_HERE to LOOK_BACK, which declares `plain`: whether they met none.
#if LOOKS_AT_DENORMALS
#define LOOK_AT(lowest, bits) lowest = min(lowest, lowest_of_four(bits));
#define LOOK_FROM_HERE \
    uint own_left_lowest = NO_LOWEST; \
    uint own_right_lowest = NO_LOWEST; \
    if (invocation == 0u) { left_lowest = NO_LOWEST; right_lowest = NO_LOWEST; }
#define LOOK_BACK \
    bool plain = true; \
    atomicMin(left_lowest, own_left_lowest); \
    atomicMin(right_lowest, own_right_lowest); \
    barrier(); \
    plain = has_no_denormals(left_lowest, right_lowest);
#else
#define LOOK_AT(lowest, bits)
#define LOOK_FROM_HERE
#define LOOK_BACK bool plain = true;
#endif

// A sum in which something that is not finite met padding is not finite itself.
bool is_finite(float sum) { return (floatBitsToUint(sum) & INFINITY_F32) != INFINITY_F32; }

// What magnitudes there are among a tile's operands: bit c is set for exponents from 8 c to 8 c + 7, zeros left out. (Where nothing
// can be denormal, or may be so, only the last bit matters, which stands for what is not finite.)
uint class_of(uint bits) {
#if LOOKS_AT_DENORMALS
    uint magnitude = bits & MAGNITUDE_F32;
    return magnitude == 0u ? 0u : 1u << (magnitude >> 26u);
#else
    return (bits & INFINITY_F32) == INFINITY_F32 ? 0x80000000u : 0u;
#endif
}

// Whether products and sums need no care. With |a| >= 2^(8c - 127) and |b| >= 2^(8d - 127), c + d >= 19, a product is at zero or at
// least 2^-102, and then a multiple of 2^-125. Added to a sum below 2^-103 it gives more than that; and a sum from 2^-103 on is a
// multiple of 2^-126, and so is what the product makes of it: zero or no denormal.
// (A product's padding meets padding only, so that there is nothing to care for where denormals may be as the device likes.)
bool is_plain(uint left_classes, uint right_classes) {
#if CONVOLUTION == 0 && OPERAND_BITS == 32 && LOOKS_AT_DENORMALS == 0
    return true;
#else
    bool is_finite = ((left_classes | right_classes) & 0x80000000u) == 0u;
#if LOOKS_AT_DENORMALS
    bool is_zero = left_classes == 0u || right_classes == 0u;
    return is_finite && (is_zero || findLSB(left_classes) + findLSB(right_classes) >= 19);
#else
    return is_finite;
#endif
#endif
}

#endif
