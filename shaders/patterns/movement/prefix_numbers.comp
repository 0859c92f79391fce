// NONZERO_COORDINATES: how many come before each segment.
// Numbers become how many come before within their group of 64; each group's sum goes one level up.
#define LANES 4
#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_numbers; // in words; a multiple of 4
    uint base_sums;
    uint count; // numbers
} parameters;

#include "buffers.glsl"

BUFFER(0, numbers)
BUFFER(1, sums)

void main() {
    uint group = invocation_index();
    if (group >= (parameters.count + 63u) / 64u) { return; }
    uint end = min(parameters.count - group * 64u, 64u);
    uint sum = 0u;
    for (uint k = 0u; k < end; ++k) {
        uint offset = BASE_WORD(numbers) + group * 64u + k;
        uint number = words_numbers[offset];
        words_numbers[offset] = sum;
        sum += number;
    }
    words_sums[BASE_WORD(sums) + group] = sum;
}
