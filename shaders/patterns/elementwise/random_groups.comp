// RANDOM_GENERATOR: numbers of Philox 4x32-10.
// The output of a generator of random numbers: an invocation writes the four numbers of a group.
#include "elementwise/random_numbers.glsl"
#include "axes.glsl"

ALL_STRIDES(output, 12)
layout(constant_id = 20) const bool HAS_FOURS = false; // whether groups lie at multiples of 16 bytes, side by side

uvec4 philox(uvec4 counter, uvec2 key) {
    for (uint round = 0u; round < 10u; ++round) {
        uint high_first, low_first, high_second, low_second;
        umulExtended(0xD2511F53u, counter.x, high_first, low_first);
        umulExtended(0xCD9E8D57u, counter.z, high_second, low_second);
        counter = uvec4(high_second ^ counter.y ^ key.x, low_second, high_first ^ counter.w ^ key.y, low_first);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}

#define MOVE_ALONG(axis) \
    if (SIZE_##axis > 1u) { \
        offset += element % SIZE_##axis * STRIDE_output_##axis; \
        element /= SIZE_##axis; \
    }
void put(uint element, uint value) {
    uint offset = BASE_WORD(output);
    MOVE_ALONG(0) MOVE_ALONG(1) MOVE_ALONG(2) MOVE_ALONG(3) MOVE_ALONG(4) MOVE_ALONG(5) MOVE_ALONG(6) MOVE_ALONG(7)
    words_output[offset] = value;
}

void main() {
    uint group = invocation_index();
    if (group >= (parameters.elements + 3u) / 4u) { return; }
    uvec4 numbers = philox(advanced(counter_of_state(), group), key_of_state());
    uint first = 4u * group;
    uint count = min(parameters.elements - first, 4u);
    if (HAS_FOURS && count == 4u) {
        fours_output[(BASE_WORD(output) >> 2u) + group] = numbers;
        return;
    }
    for (uint k = 0u; k < count; ++k) { put(first + k, numbers[k]); }
}
