// float16 to float32 and back, exactly: for arithmetic, which is done in float32 and rounded once.
//
// Rounding twice, first to 24 bits and then to 11, gives what rounding once gives for sums, differences, products, quotients
// and square roots of float16 values, because 24 >= 2 * 11 + 2 (S. Figueroa, «When is double rounding innocuous?», 1995).
#ifndef FLOAT16_GLSL
#define FLOAT16_GLSL

#define NAN_F16 0x7e00u
#define INFINITY_F16 0x7c00u

// The bits as float32: every float16 is a normal number there, or zero. A NaN keeps its payload.
uint float32_from_float16(uint x)
{
    int magnitude = int(x & 0x7fffu);
    uint moved = uint(magnitude) << 13;
    // A denormal's fraction is put behind the leading bit of 2^-14, which is then taken away.
    precise float denormal = uintBitsToFloat(moved + 0x38800000u) - uintBitsToFloat(0x38800000u);
    uint normal = moved + (magnitude >= int(INFINITY_F16) ? 0x70000000u : 0x38000000u);
    return ((x & 0x8000u) << 16) | (magnitude < 0x400 ? floatBitsToUint(denormal) : normal);
}

// Rounded to nearest even, from the bits of float32; a NaN becomes the canonical one.
uint float16_from_float32(uint x)
{
    int magnitude = int(x & 0x7fffffffu);
    // Half of the last place that is kept, less one for a tie below an even number.
    int rounded = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    // The last place of 0.5 is 2^-24, float16's smallest number: the adder rounds.
    precise float denormal = uintBitsToFloat(uint(magnitude)) + 0.5;
    uint finite = magnitude < 0x38800000 ? floatBitsToUint(denormal) - 0x3f000000u : uint(min(rounded, int(INFINITY_F16)));
    return magnitude > 0x7f800000 ? NAN_F16 : ((x >> 16) & 0x8000u) | finite;
}

// name_f16 from name_f32, for functions of one and two arguments.
#define FLOAT16_FORM_1(name) \
    uint name##_f16(uint x) { return float16_from_float32(name##_f32(float32_from_float16(x))); }
#define FLOAT16_FORM_2(name) \
    uint name##_f16(uint a, uint b) \
    { \
        return float16_from_float32(name##_f32(float32_from_float16(a), float32_from_float16(b))); \
    }

#endif
