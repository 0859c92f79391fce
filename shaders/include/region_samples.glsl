// Places of a region's samples: steps in float32, each rounded once, so that none lies elsewhere on another device. The bits of
// InputPixelOffset and OutputPixelOffset are among the parameters.
#ifndef REGION_SAMPLES_GLSL
#define REGION_SAMPLES_GLSL

#include "resampling.glsl"

// Where sample k lies along an axis; start and step are the bits of float32.
float location_of_sample(uint k, uint start, uint step) {
    precise float offset = float(int(k)) - uintBitsToFloat(parameters.output_offset);
    precise float moved = offset * uintBitsToFloat(step) + uintBitsToFloat(start);
    precise float location = moved - uintBitsToFloat(parameters.input_offset);
    return location;
}

// Whether a place lies before, or behind, what counts as inside.
bool is_before(float location) {
    precise float distance = location + 1.0;
    return floatBitsToInt(distance) < 0;
}
bool is_behind(float location, uint extent) {
    precise float distance = float(int(extent)) - location;
    return floatBitsToInt(distance) < 0;
}

// The same, of a sample inside, between the first element and the last one.
float location_between(uint k, uint start, uint step, uint extent) {
    int bits = int(without_denormal(floatBitsToUint(location_of_sample(k, start, step))));
    return intBitsToFloat(min(max(bits, 0), floatBitsToInt(float(int(extent - 1u)))));
}

#endif
