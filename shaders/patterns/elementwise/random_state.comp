// RANDOM_GENERATOR: the state behind the numbers that were made.
// The state of a generator of random numbers behind the groups that were made.
#define ADVANCES_STATE
#include "elementwise/random_numbers.glsl"

void main() {
    if (invocation_index() != 0u) { return; }
    uvec4 counter = advanced(counter_of_state(), parameters.groups);
    uvec2 key = key_of_state();
    uint words[6] = uint[6](counter.x, counter.y, counter.z, counter.w, key.x, key.y);
    for (uint n = 0u; n < 6u; ++n) { words_output[BASE_WORD(output) + n * parameters.output_step] = words[n]; }
}
