// Numbers as they are when rounded to FLOAT16, for kernels that go on with them as floats.
#ifndef FLOAT16_ROUNDING_GLSL
#define FLOAT16_ROUNDING_GLSL

#include "float16.glsl"

// Of two numbers, neither of them NaN. 4 operations where a device has the conversions. `hidden` is a zero that the compiler does not
// know: NVIDIA's takes one conversion behind the other for nothing, and leaves both out.
vec2 as_rounded_to_float16(vec2 numbers, uint hidden) {
    uint pair;
    if (PACKS_TO_NEAREST_EVEN) {
        pair = packHalf2x16(numbers);
    } else {
        pair = float16_from_number(floatBitsToUint(numbers.x)) | float16_from_number(floatBitsToUint(numbers.y)) << 16u;
    }
    return uintBitsToFloat(float32_from_float16_pair(pair | hidden));
}

#endif
