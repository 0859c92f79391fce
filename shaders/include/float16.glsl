// float16 to float32 and back, exactly: for arithmetic, which is done in float32 and rounded once.
//
// Rounding twice, first to 24 bits and then to 11, gives what rounding once gives for sums, differences, products, quotients
// and square roots of float16 values, because 24 >= 2 * 11 + 2 (S. Figueroa, «When is double rounding innocuous?», 1995).
#ifndef FLOAT16_GLSL
#define FLOAT16_GLSL

#define NAN_F16 0x7e00u
#define INFINITY_F16 0x7c00u
#define ONE_F16 0x3c00u

// Whether unpackHalf2x16 keeps denormals: it does so always on a device, or never (as GLSL.std.450 says). The host tries it
// (dmlvk/trials/half_trial.py) and sets the constant in the module.
layout(constant_id = 1002) const bool UNPACKS_DENORMALS = false;

// Whether packHalf2x16 rounds to nearest even: Vulkan lets a device round as it likes. The host tries that too.
layout(constant_id = 1004) const bool PACKS_TO_NEAREST_EVEN = false;

// The bits as float32: every float16 is a normal number there, or zero; a NaN is any NaN. 8 operations, few of them on bits,
// for which many GPUs have half as many units, or the one that devices have for it. What is above the 16 bits does not matter.
uint float32_from_float16(uint x) {
    if (UNPACKS_DENORMALS) { return floatBitsToUint(unpackHalf2x16(x).x); }
    // With 224 added to the exponent, infinity's and NaN's is float32's own; 2^-112 brings all back to where they belong, but
    // for a denormal: that is 2^-15 and half of its value, d.
    precise float value = uintBitsToFloat((x & 0x7fffu) * 0x2000u + 0x70000000u) * 1.92592994438723586e-34; // 2^-112
    precise float below_normal = value - 6.103515625e-05; // d - 2^-15; of a normal number not negative
    precise float magnitude = value + intBitsToFloat(min(floatBitsToInt(below_normal), 0));
    return ((x & 0x8000u) << 16) | floatBitsToUint(magnitude);
}

// The same of both halves of a word, the lower one first.
uvec2 float32_from_float16_pair(uint word) {
    if (UNPACKS_DENORMALS) { return floatBitsToUint(unpackHalf2x16(word)); }
    return uvec2(float32_from_float16(word), float32_from_float16(word >> 16u));
}

// The value of a float16 that is_denormal_or_zero_f16 refuses; of a NaN, any NaN. 4 operations.
float quick_float32_from_float16(uint x) {
    if (UNPACKS_DENORMALS) { return unpackHalf2x16(x).x; }
    // The sign and four copies of it: all but the first give way to the 224 that are added to the exponent.
    uint bits = (uint(int(x << 16) >> 3) & 0x8fffffffu) | 0x70000000u;
    precise float value = uintBitsToFloat(bits) * 1.92592994438723586e-34; // 2^-112
    return value;
}
bool is_denormal_or_zero_f16(uint x) { return (x & INFINITY_F16) == 0u; }

// Rounded to nearest even, from the bits of a float32 that is no NaN. 10 operations, or the one that devices have for it.
uint float16_from_number(uint x) {
    if (PACKS_TO_NEAREST_EVEN) { return packHalf2x16(vec2(uintBitsToFloat(x), 0.0)); }
    int magnitude = int(x & 0x7fffffffu);
    int finite = min(magnitude, 0x47800000); // 2^16, which is float16's infinity
    int exponent = max(finite, 0x38800000) >> 23; // float16's denormals have that of the smallest normal number
    // Added to a number 2^13 times as large as the number's leading bit, it is rounded by the adder to the places that float16
    // has; what it is as an integer then stands in the sum's last bits.
    int large = exponent * 0x800000 + 0x6800000; // 13 << 23
    precise float total = intBitsToFloat(finite) + intBitsToFloat(large);
    int rounded = exponent * (0x400 - 0x800000) + floatBitsToInt(total) - (0x6800000 + 0x1c400); // 113 << 10
    return (x >> 31) * 0x8000u + uint(rounded);
}

// The same from any float32; a NaN becomes the canonical one.
uint float16_from_float32(uint x) {
    uint bits = float16_from_number(x);
    return int(x & 0x7fffffffu) > 0x7f800000 ? NAN_F16 : bits;
}

// Of a word with two of them: the sign bit of each whose bits without the sign are `limit` or more. 3 operations.
uint magnitudes_from_f16(uint word, uint limit) { return ((word & 0x7fff7fffu) + (0x8000u - limit) * 0x10001u) & 0x80008000u; }

// Not 0 where one of the two is NaN (or, for `special`, infinite too), or where the device's own conversions are not exact. For functions
// that are quick by those (elementwise_vectors.glsl).
uint magnitudes_or_inexact_f16(uint word, uint limit) {
    return UNPACKS_DENORMALS && PACKS_TO_NEAREST_EVEN ? magnitudes_from_f16(word, limit) : 1u;
}
uint nan_bits_f16(uint word) { return magnitudes_or_inexact_f16(word, INFINITY_F16 + 1u); }
uint special_bits_f16(uint word) { return magnitudes_or_inexact_f16(word, INFINITY_F16); }

// Rounded to nearest, from the bits of a float32 between 2^-14 and 2^16; where it lies in the middle, up.
uint quick_float16_from_float32(uint x) { return (x - 0x37fff000u) >> 13; }

// name_f16 from name_f32, for functions of one and two arguments.
#define FLOAT16_FORM_1(name) \
    uint name##_f16(uint x) { return float16_from_float32(name##_f32(float32_from_float16(x))); }
#define FLOAT16_FORM_2(name) \
    uint name##_f16(uint a, uint b) { \
        return float16_from_float32(name##_f32(float32_from_float16(a), float32_from_float16(b))); \
    }

#endif
