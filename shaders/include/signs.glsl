// Integers that the module knows by their width alone: operands of these have unsigned types, and SPECIAL_ATTRIBUTE tells of each group of
// tensors with a data type in common whether it has a sign. The declaration's `signs` counts them, from bit 0 on.
#ifndef SIGNS_GLSL
#define SIGNS_GLSL

#include "special_attribute.glsl"

#define HAS_SIGN(group) ((SPECIAL_ATTRIBUTE >> (group) & 1u) != 0u)

// An integer of up to 32 bits, sign-extended where it has a sign.
uint extended(uint x, uint bits, bool is_signed) {
    uint distance = 32u - bits;
    return is_signed ? uint(int(x << distance) >> distance) : x;
}

// EXTENDED(type, has_sign, x): the same by the operand's type; floats stay.
#define EXTENDED(type, has_sign, x) CONCATENATE(EXTENDED_, type)(has_sign, x)
#define EXTENDED_float32(has_sign, x) (x)
#define EXTENDED_float16(has_sign, x) (x)
#define EXTENDED_uint32(has_sign, x) (x)
#define EXTENDED_uint16(has_sign, x) extended(x, 16u, has_sign)
#define EXTENDED_uint8(has_sign, x) extended(x, 8u, has_sign)
#define EXTENDED_uint64(has_sign, x) (x)

#endif
