// CAST: f(x) = x as another data type. Operands are told by their widths; what they are is part of SPECIAL_ATTRIBUTE.
#if INPUT_0_BITS == 64 || OUTPUT_BITS == 64
#define LONG_OPERATION
#endif
#include "elementwise/elementwise_operands.glsl"
#include "special_attribute.glsl"
#include "casting.glsl"

// 0 without a sign, 1 with one, 2 float.
#define INPUT_KIND (SPECIAL_ATTRIBUTE % 4u)
#define OUTPUT_KIND (SPECIAL_ATTRIBUTE / 4u % 4u)
#define IS_SIGNED(kind) (kind == 1u)
#define IS_FLOAT(kind) (kind == 2u)

#if OUTPUT_BITS == 64
#define RESULT uvec2
#else
#define RESULT uint
#endif

#if INPUT_0_BITS < 64
RESULT from_float32(uint x) {
#if OUTPUT_BITS == 64
    return IS_FLOAT(OUTPUT_KIND) ? float64_from_float32(x) : integer64_from_float32(x, IS_SIGNED(OUTPUT_KIND));
#else
    if (!IS_FLOAT(OUTPUT_KIND)) { return integer_from_float32(x, uint(OUTPUT_BITS), IS_SIGNED(OUTPUT_KIND)); }
#if OUTPUT_BITS == 16
    return float16_from_float32(x);
#else
    return (x & 0x7fffffffu) > 0x7f800000u ? NAN_BITS_F32 : x;
#endif
#endif
}

RESULT from_integer(uint x) {
#if OUTPUT_BITS == 64
    uvec2 wide = uvec2(x, IS_SIGNED(INPUT_KIND) ? uint(int(x) >> 31) : 0u);
    if (!IS_FLOAT(OUTPUT_KIND)) { return wide; }
    uint sign;
    uvec2 magnitude = magnitude_of_integer(wide, IS_SIGNED(INPUT_KIND), sign);
    return float64_from_magnitude(magnitude, sign);
#else
    if (!IS_FLOAT(OUTPUT_KIND)) { return x; }
    uint number = float32_from_integer(x, IS_SIGNED(INPUT_KIND));
#if OUTPUT_BITS == 16
    return float16_from_float32(number); // what is not exact is beyond FLOAT16
#else
    return number;
#endif
#endif
}

RESULT converted(uint x) {
    if (!IS_FLOAT(INPUT_KIND)) { return from_integer(extended(x, uint(INPUT_0_BITS), IS_SIGNED(INPUT_KIND))); }
#if INPUT_0_BITS == 16
    return from_float32(float32_from_float16(x));
#else
    return from_float32(x);
#endif
}
#else
RESULT converted(uvec2 x) {
    if (IS_FLOAT(INPUT_KIND)) {
        if (!IS_FLOAT(OUTPUT_KIND)) {
            uvec2 integer = integer_from_float64(x, uint(OUTPUT_BITS), IS_SIGNED(OUTPUT_KIND));
#if OUTPUT_BITS == 64
            return integer;
#else
            return integer.x;
#endif
        }
#if OUTPUT_BITS == 16
        return float16_from_float32(float32_from_float64(x, true));
#elif OUTPUT_BITS == 32
        return float32_from_float64(x, false);
#endif
    }
#if OUTPUT_BITS == 64
    if (!IS_FLOAT(OUTPUT_KIND)) { return x; }
#else
    if (!IS_FLOAT(OUTPUT_KIND)) { return x.x; }
#endif
    uint sign;
    uvec2 magnitude = magnitude_of_integer(x, IS_SIGNED(INPUT_KIND), sign);
#if OUTPUT_BITS == 64
    return float64_from_magnitude(magnitude, sign);
#elif OUTPUT_BITS == 16
    return float16_from_float32(float32_from_magnitude(magnitude, sign)); // what is not exact is beyond FLOAT16
#else
    return float32_from_magnitude(magnitude, sign);
#endif
}
#endif

#define OPERATION(x) converted(x)
