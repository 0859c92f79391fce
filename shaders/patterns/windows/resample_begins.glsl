// A table for an axis: of each element of the input of a resampling, the first element of its output that comes from that one or from later
// ones. Elements of the output come from places that rise with them. Behind the last entry one more holds how many they are.
//
// The operator's file defines uint element_from(float place) behind: the number of the element at a place.

#include "datatypes.glsl"
#include "resampling.glsl"

#define LANES 4
layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_begins;
    uint first;   // where the table begins, in words
    uint entries;
    uint size;    // elements of the output
} parameters;

#include "buffers.glsl"

BUFFER(0, begins)

layout(constant_id = 2) const bool IS_LINEAR = false;
layout(constant_id = 3) const uint ROUNDING = 0u; // of nearest elements
layout(constant_id = 4) const uint SCALE = 0x3f800000u;
layout(constant_id = 5) const uint INVERSE = 0x3f800000u;
layout(constant_id = 6) const uint INPUT_OFFSET = 0u;
layout(constant_id = 7) const uint OUTPUT_OFFSET = 0u;
layout(constant_id = 8) const uint LAST = 0u;

uint element_from(float location);

void main() {
    uint entry = invocation_index();
    if (entry >= parameters.entries) { return; }
    Resampled axis = Resampled(uintBitsToFloat(SCALE), uintBitsToFloat(INVERSE), uintBitsToFloat(INPUT_OFFSET),
        uintBitsToFloat(OUTPUT_OFFSET), uintBitsToFloat(LAST));
    uint low = 0u;
    uint high = parameters.size;
    for (uint step = 0u; step < 32u && low < high; ++step) {
        uint middle = low + (high - low) / 2u;
        if (element_from(location_of(middle, axis)) >= entry) {
            high = middle;
        } else {
            low = middle + 1u;
        }
    }
    words_begins[BASE_WORD(begins) + parameters.first + entry] = low;
}
