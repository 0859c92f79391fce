// Four numbers as FLOAT16, and back, by the device's conversions.
#ifndef FLOAT16_FOURS_GLSL
#define FLOAT16_FOURS_GLSL

#include "float16.glsl"

// Where the device rounds them so: PACKS_TO_NEAREST_EVEN.
uvec2 packed_four(vec4 numbers) {
    uvec2 four = uvec2(0u);
    if (PACKS_TO_NEAREST_EVEN) { four = uvec2(packHalf2x16(numbers.xy), packHalf2x16(numbers.zw)); }
    return four;
}
vec4 unpacked_four(uvec2 four) { return uintBitsToFloat(uvec4(float32_from_float16_pair(four.x), float32_from_float16_pair(four.y))); }

#endif
